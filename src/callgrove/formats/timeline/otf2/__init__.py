"""OTF2 archives, which Vampir, Scalasca and the tools of Score-P open. Needs the extra `otf2`.

    writer.py    slices and points -> an archive, by OTF2's own library
    decoder.py   the program that calls the library for reading, in a process of its own
"""
