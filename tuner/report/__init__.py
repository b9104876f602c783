"""The report: what people read of a study. Pure functions of `tuner.history.History`.

`summary` computes the facts, `cautions` what a reader must know first, `blocks` arranges both once for all
forms, and `text`, `markdown` and `html` only render.
"""
