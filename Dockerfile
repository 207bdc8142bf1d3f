# The two commands in a container:
#     docker build -t dtcl .                    installs everything and builds the book
#     docker run dtcl                           make test
#     docker run -p 8000:8000 dtcl make serve   the book at http://localhost:8000
FROM python:3.12-slim AS tools
RUN apt-get update && apt-get install -y --no-install-recommends g++ git make && rm -rf /var/lib/apt/lists/*

FROM tools
WORKDIR /dtcl
COPY . .
RUN make book
CMD ["make", "test"]
