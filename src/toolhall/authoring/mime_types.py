"""MIME types of files by their names, the same on every machine, and which of them are text.

The standard library's `mimetypes` reads tables of the machine, so that one file could have two types on two replicas.
"""

_SUFFIXES = {
    "application/gzip": ".gz .tgz",
    "application/json": ".json .map",
    "application/msword": ".doc",
    "application/octet-stream": ".bin .exe .dll .so",
    "application/pdf": ".pdf",
    "application/rtf": ".rtf",
    "application/sql": ".sql",
    "application/toml": ".toml",
    "application/vnd.ms-excel": ".xls",
    "application/vnd.ms-powerpoint": ".ppt",
    "application/vnd.oasis.opendocument.spreadsheet": ".ods",
    "application/vnd.oasis.opendocument.text": ".odt",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/vnd.sqlite3": ".sqlite .db",
    "application/wasm": ".wasm",
    "application/x-ndjson": ".jsonl .ndjson",
    "application/x-sh": ".sh .bash",
    "application/x-tar": ".tar",
    "application/xml": ".xml .xsd .xsl",
    "application/yaml": ".yaml .yml",
    "application/zip": ".zip .whl .jar",
    "audio/flac": ".flac",
    "audio/mp4": ".m4a",
    "audio/mpeg": ".mp3",
    "audio/ogg": ".ogg .opus",
    "audio/wav": ".wav",
    "font/ttf": ".ttf",
    "font/woff2": ".woff2",
    "image/avif": ".avif",
    "image/bmp": ".bmp",
    "image/gif": ".gif",
    "image/jpeg": ".jpg .jpeg",
    "image/png": ".png",
    "image/svg+xml": ".svg",
    "image/tiff": ".tif .tiff",
    "image/vnd.microsoft.icon": ".ico",
    "image/webp": ".webp",
    "text/calendar": ".ics",
    "text/css": ".css",
    "text/csv": ".csv",
    "text/html": ".html .htm",
    "text/javascript": ".js .mjs .cjs",
    "text/markdown": ".md .markdown",
    "text/plain": ".txt .text .log .cfg .ini .conf .properties .rst .diff .patch .c .h .cpp .hpp .cs .go .java .kt "
    ".lua .php .pl .rb .rs .swift .ts .tsx .jsx .tex",
    "text/tab-separated-values": ".tsv",
    "text/vcard": ".vcf",
    "text/x-python": ".py .pyi",
    "video/mp4": ".mp4",
    "video/mpeg": ".mpeg .mpg",
    "video/webm": ".webm",
}
_TYPES = {suffix: mime_type for mime_type, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}
_TEXTUAL_SUFFIXES = ("+json", "+xml", "+yaml")
_TEXTUAL = frozenset({
    "application/json", "application/javascript", "application/rtf", "application/sql", "application/toml",
    "application/x-ndjson", "application/x-sh", "application/xml", "application/yaml",
})  # fmt: skip


def mime_type_of(name: str) -> str | None:
    """The MIME type of a file with this name; None if its suffix is not known."""
    return _TYPES.get("." + name.rpartition(".")[2].lower()) if "." in name else None


def is_textual(mime_type: str) -> bool:
    """Whether content of this type is text, if it is UTF-8."""
    essence = mime_type.partition(";")[0].strip().lower()
    return essence.startswith("text/") or essence.endswith(_TEXTUAL_SUFFIXES) or essence in _TEXTUAL
