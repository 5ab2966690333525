"""Checks the prose of Markdown files, and the comments of programs for doubled words: prose.py FILE...

    lines      at most 100 columns, outside of tables, code, HTML and the targets of links
    sentences  at most 30 words; `code` is one word; table cells are looked at for words only
    words      no pattern of PATTERNS, each of which has a plain replacement

Prints FILE:LINE: what is wrong, and exits with 1 if there is any.
"""

import re

from findings import FENCE, main

COLUMNS, WORDS = 100, 30
PATTERNS = {
    r"\bwhoever\b": "name who it is",
    r"\bwhom\b": "name who it is",
    r"(?:^|[.!?] )Of (?:a|an|the|what|those)\b": "begin with the subject",
    r", for (?:it|they|he|she|who|this|that|these|those|no|nobody|each)\b": 'write "because"',
    r"\b(?:says|tells|said|told) of\b": 'write "shows", "reports" or "names"',
    r"\bthat (?:is|are) had\b": "name the thing and what it does",
    r"\bis seen to be\b": 'write "is"',
    r"\bare seen to be\b": 'write "are"',
    r"\bstands? in (?:\[|`)": 'write "is in" or "see"',
}
DOUBLED = re.compile(r"\b(?!long\b)([A-Za-z]{3,}(?: [a-z]+){0,2}) \1\b")
COMMENT = re.compile(r"(?://|#)\s(.*)")  # of C++, Go or Python
FOUND = [(re.compile(pattern), advice) for pattern, advice in PATTERNS.items()]
ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+")
HTML = re.compile(r"</?[a-z]+[ >]")
TARGET = re.compile(r"\]\([^)]*\)")
END = re.compile(r"(?<=[.!?])[)\"*_]*\s+(?=[\"*_(\[`]*[A-Z0-9`])")
ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|vs|etc|cf|[A-Z])\.$")


def blocks(text):
    """(number of the first line, its lines) for each paragraph, list item and row of a table."""
    block, first, fenced, comment, html = [], 0, False, False, False
    for number, line in enumerate(text.splitlines(), 1):
        html = bool(line.strip()) and not fenced and (html or (not block and bool(HTML.match(line))))
        if FENCE.match(line):
            fenced = not fenced
            line = ""
        elif html:
            line = ""  # Markdown ends a block of HTML at an empty line
        elif not block and line.startswith("    ") and not ITEM.match(line):
            line = ""  # code by indentation
        elif fenced or comment or line.lstrip().startswith("<!--"):
            comment = not fenced and "-->" not in line
            line = ""
        alone = line.lstrip().startswith(("|", "#"))
        if block and (not line.strip() or alone or ITEM.match(line)):
            yield first, block
            block = []
        if line.strip():
            first = first if block else number
            block.append(line)
        if alone:
            yield first, block
            block = []
    if block:
        yield first, block


def plain(line):
    """The words of a line: without the targets of links, with a code span as one word."""
    return re.sub(r"`[^`]*`", "`code`", TARGET.sub("]", line))


def sentences(text):
    """The sentences of a paragraph."""
    start = 0
    for end in END.finditer(text):
        if not ABBREVIATION.search(text[start:end.start()].split(" ")[-1]):
            yield text[start:end.start()]
            start = end.end()
    yield text[start:]


def check(path, text):
    """The findings in a file's text, a line each."""
    if not str(path).endswith(".md"):
        for number, line in enumerate(text.splitlines(), 1):
            comment = COMMENT.search(line)
            if comment and (found := DOUBLED.search(comment[1])):
                yield f'{path}:{number}: "{found[0]}": write it once'
        return
    for first, lines in blocks(text):
        table = lines[0].lstrip().startswith("|")
        for number, line in enumerate(lines, first):
            width = len(TARGET.sub("]", line))
            if not table and width > COLUMNS and " " in line.strip():
                yield f"{path}:{number}: {width} columns; the limit is {COLUMNS}"
        whole = plain(" ".join(ITEM.sub("", line).strip() for line in lines))
        for pattern, advice in FOUND:
            if found := pattern.search(whole):
                yield f'{path}:{first}: "{found[0].strip()}": {advice}'
        if found := DOUBLED.search(whole):
            yield f'{path}:{first}: "{found[0]}": write it once'
        if table or lines[0].startswith("#"):
            continue
        for sentence in sentences(whole):
            words = [word for word in sentence.split() if re.search(r"\w", word)]
            if len(words) > WORDS:
                yield (f"{path}:{first}: a sentence of {len(words)} words; the limit is {WORDS}: "
                       f"{' '.join(words[:8])} …")


if __name__ == "__main__":
    main(__doc__, check)
