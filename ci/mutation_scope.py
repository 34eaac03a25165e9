"""Which lines of the mock run only with a defect: a change there is no change of the mock as it runs
without one. For ci/mutation.

Found by reading conditions: branches that a defect guards, what comes behind a return that is taken
without one, and functions that are used nowhere else. A line that is not recognised counts as ordinary."""
import re

IF = re.compile(r"\bif (?=\()")
FUNCTION = re.compile(r"^[a-z][^;{}=]*?\b(\w+)\([^;{}]*\)\n\{", re.M)
OPEN, CLOSE = "({", ")}"


def end_of_group(text, start):
    """Behind what closes the parenthesis or brace at start."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] in OPEN) - (text[at] in CLOSE)
        if depth == 0:
            return at + 1
    return len(text)


def end_of_statement(text, start):
    """Behind the statement at start: a block, or what ends with a semicolon."""
    at = re.compile(r"\s*").match(text, start).end()
    if text[at] == "{":
        return end_of_group(text, at)
    control = re.compile(r"(if|for|while) (?=\()").match(text, at)
    if control:
        return end_of_statement(text, end_of_group(text, control.end()))
    return text.index(";", at) + 1


def terms(condition, operator):
    """The parts of a condition between an operator, outside of parentheses."""
    parts, depth, start = [], 0, 0
    for at in range(len(condition)):
        depth += (condition[at] == "(") - (condition[at] == ")")
        if depth == 0 and condition.startswith(operator, at):
            parts.append(condition[start:at])
            start = at + len(operator)
    return [part.strip() for part in parts + [condition[start:]]]


def says_defect(condition, value):
    """Whether a condition can only have that value with a defect."""
    condition = condition.strip()
    while condition.startswith("(") and end_of_group(condition, 0) == len(condition):
        condition = condition[1:-1].strip()
    alternatives, conjuncts = terms(condition, "||"), terms(condition, "&&")
    if len(alternatives) > 1:
        return (all if value else any)(says_defect(term, value) for term in alternatives)
    if len(conjuncts) > 1:
        return (any if value else all)(says_defect(term, value) for term in conjuncts)
    if condition.startswith("!"):
        return says_defect(condition[1:], not value)
    return value and condition.startswith("mock_has(")


def lines_of(text, start, end):
    return set(range(text.count("\n", 0, start) + 1, text.count("\n", 0, end) + 2))


def guarded_lines(text):
    """What conditions guard that ask for a defect, and what is behind a return without one."""
    lines = set()
    for match in IF.finditer(text):
        start = end_of_group(text, match.end())
        condition, end = text[match.end():start], end_of_statement(text, start)
        if says_defect(condition, True):
            lines |= lines_of(text, match.start(), end - 1)
            otherwise = re.compile(r"\s*else\s").match(text, end)
            if otherwise:
                lines |= lines_of(text, otherwise.end() - 2, otherwise.end() - 2)
        elif says_defect(condition, False) and re.search(r"\breturn\b[^;]*;\s*\}?$", text[start:end]):
            lines |= lines_of(text, end, text.index("\n}", end))
    return lines


def is_asked_for(text, at):
    """Whether the name at this place is only reached if a defect is on: `mock_has(…) && name`."""
    before = text[max(0, at - 120):at]
    return re.search(r"(?<!!)mock_has\([^()]*\)\s*&&\s*[!(]*$|!mock_has\([^()]*\)\s*\|\|\s*[!(]*$",
                     before) is not None


def defect_lines(texts):
    """{file: lines}, from {file: text} of all files."""
    lines = {name: guarded_lines(text) for name, text in texts.items()}
    bodies = {match[1]: (name, lines_of(text, match.start(), end_of_group(text, match.end() - 1) - 1))
              for name, text in texts.items() for match in FUNCTION.finditer(text)}

    def is_defects(function, home, body):
        uses = [(name, match.start()) for name, text in texts.items()
                for match in re.finditer(rf"\b{function}\b", text)]
        uses = [(name, at, min(lines_of(texts[name], at, at))) for name, at in uses]
        uses = [use for use in uses if use[0] != home or use[2] not in body]
        return bool(uses) and all(line in lines[name] or is_asked_for(texts[name], at)
                                  for name, at, line in uses)

    grown = True
    while grown:
        grown = False
        for function, (home, body) in bodies.items():
            if not body <= lines[home] and is_defects(function, home, body):
                lines[home] |= body
                grown = True
    return lines
