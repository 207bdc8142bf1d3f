"""The reproduction of arXiv 2601.07748 on `dtcl_core`: what is asked, selected, compared, judged and drawn.

In the order of their use: `experiments` lists runs, `reported` holds the paper's numbers and `left_open` fills what it
leaves open; `study` brings an experiment to its rows; `selection` picks configurations by validation; `compare` has one
difference with its interval; `contrasts` says what each claim compares, and `claims` judges; `embeddings` looks into trained
networks; `tables` and `figures` (by `style`) make the twins of the paper's; `audit` retrains stored rows; `chapter` is what
notebooks need; `cli` is the command `dtcl`.
"""
