"""dtcl_core: contrastive losses with domain-aware temperature, and the engine that reproduces their paper.

Modules, from the ground up: `keyed` (randomness), `data`, `augment`, `losses`, `logistic`, `discriminator`, `methods`,
`config` (what a run is), `encoder`, `streams` (data and views on the device), `device`, `pretrain` (the engine), `evaluate`, `results` (the store), `experiments`, `work`
(train what is missing), `selection`, `statistics`, `reported`, `figures`, and the command line.
"""
