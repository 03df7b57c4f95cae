"""Protocol codecs as pure functions between bytes and the model: no I/O, no clock, no randomness.

Every dialect is a package with the same files: `catalog.py` reads and writes tool definitions, `errors.py` holds
the table from each error of the tree to its wire form, `messages.py` decodes requests and encodes responses,
`content.py` encodes content blocks. MCP has `protocol.py`, `requests.py` and `responses.py` in place of
`messages.py`. The APIs of model vendors are catalogs only, one module each, in `model_apis`. `convert` translates
definitions between dialects, `lint` checks them.
"""
