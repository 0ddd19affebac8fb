"""
The page of a run: what a journal says of runs as the data of one HTML page, and the page itself.

`view.JournalView` reads a journal and gives the page's parts: the list of runs, one run, some of its rows. `html` puts them into one file;
`paor.inspect` serves them one by one. May import everything below the engine; only the face, the command line and `paor.inspect` use it.
Start with `view.py`; of the page itself with `assets/main.js`.
"""
