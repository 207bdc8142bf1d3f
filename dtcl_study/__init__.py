"""The reproduction of arXiv 2601.07748 on `dtcl_core`: what is asked, selected, compared, judged and drawn.

Each module imports only those named before it. `reported`: the paper's numbers. `left_open`: settings that it leaves open.
`experiments`: lists of runs, shared names. `selection`: configurations by validation, frozen in files. `compare`: a mean or
difference with its interval. `study`: rows of an experiment, evidence for claims. `contrasts`: what claims compare. `style`,
`chapter`: the look of figures, what notebooks need. `claims`: the rule and the verdicts (their words are in headline.md). `tables`,
`figures`: twins of the paper's. `embeddings`: what networks know. `audit`: stored rows again. `commands`, `cli`: the command `dtcl`.
"""
