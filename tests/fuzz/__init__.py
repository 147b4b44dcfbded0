"""A fuzzer that knows the structure of what it damages. `python -m tests.fuzz --help` lists its commands.

seeds         small sound inputs of every format
texts         damage to bytes, lines, JSON and XML
containers    damage to tar, zip and compressed files, and to what is inside them
databases     damage to SQLite and Parquet files: to their pages and footers, and to their rows
records       damage to record tables, protocol buffers and OTF2 records
cases         which seed is damaged how: the same for the same number
asking        what is asked of a damaged input, and which answers are findings
server        cases in forked children with limits on memory, time and descriptors
findings      where something broke, the smallest input that breaks it, files of the corpus
flips         how many flipped bits `check` notices by itself
campaign      long runs that can be interrupted, and their table
"""
