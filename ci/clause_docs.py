"""The documents about clauses: docs/protocol/ and docs/cases.md. For generate-docs."""
import pathlib
import re

# Sections of docs/protocol.md that state nothing about a server: they introduce, advise or explain.
NO_CLAUSES = {"1", "2", "3", "4", "6", "7", "8", "10", "11", "4.17", "5.3", "11.4"}


def read(path):
    return pathlib.Path(path).read_text(encoding="utf-8")


def table(head, rows):
    lines = ["| %s |" % " | ".join(head), "|" + "---|" * len(head)]
    return "\n".join(lines + ["| %s |" % " | ".join(row) for row in rows])


def escaped(text):
    return text.replace("|", "\\|")


# ---- sources and links ----


def sections():
    """{number: (title, anchor)} of docs/protocol.md."""
    found = {}
    for number, title in re.findall(r"^#+ (\d+(?:\.\d+)?)\.? (.*)$", read("docs/protocol.md"), re.M):
        heading = re.search(r"^#+ (%s\.? .*)$" % re.escape(number), read("docs/protocol.md"), re.M)[1]
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found[number] = (title, anchor)
    return found


def sections_of(source):
    """The numbers of the sections that a source cites: 4.10-4.12 is three, "10 row 21" is section 10."""
    numbers = []
    for cited in re.findall(r"\bprotocol (\d[\d., \-row]*)", source or ""):
        for first, last in re.findall(r"(?<!row )\b(\d+(?:\.\d+)?)\b(?:-(\d+\.\d+))?", cited):
            chapter = first.split(".")[0]
            if last:
                numbers += ["%s.%d" % (chapter, n) for n in
                            range(int(first.split(".")[1]), int(last.split(".")[1]) + 1)]
            else:
                numbers.append("10" if chapter == "10" else first)
    return numbers


def reports_of(source):
    """B10-B13 is four."""
    numbers = []
    for kind, first, last in re.findall(r"\b([BN])(\d\d)\b(?:-[BN](\d\d)\b)?", source or ""):
        numbers += ["%s%02d" % (kind, n) for n in range(int(first), int(last or first) + 1)]
    return numbers


def linked(source, up):
    """A source as declared, with links; `up` leads from the page to docs/."""
    known = sections()

    def link_numbers(match):
        return re.sub(r"(?<!row )\b\d+(?:\.\d+)?\b", link_number, match[0])

    def link_number(match):
        number = match[0] if match[0] in known else match[0].split(".")[0]
        return "[%s](%sprotocol.md#%s)" % (match[0], up, known[number][1]) if number in known else match[0]

    source = re.sub(r"\b([BN]\d\d)\b", lambda m: "[%s](%sbugs.md#%s)" % (m[1], up, m[1].lower()), source)
    return re.sub(r"\bprotocol \d[\d., \-row]*", link_numbers, source)


# ---- what releases do ----


def as_regex(pattern):
    """A pattern over ids as docs/expectations.md describes it."""
    parts = []
    for part in pattern.split("/"):
        if part == "**":
            parts.append("(?:[^/]+/)*")
        else:
            parts.append(re.escape(part).replace(r"\*", "[^/]*").replace(r"\?", "[^/]") + "/")
    return re.compile("".join(parts) + ".*")


def deviations():
    """[(release, pattern)], in the order of the files: what fixtures/expect/ says is not kept."""
    found = []
    for path in sorted(pathlib.Path("fixtures/expect").glob("*.txt")):
        release = re.search(r"\d+\.\d+\.\d+", path.name)[0]
        for line in read(path).splitlines():
            words = line.split("#")[0].split()
            if len(words) == 2 and words[1] != "skip":
                found.append((release, as_regex(words[0])))
    return found


def not_kept_by(clause, instances, known):
    releases = []
    for release, pattern in known:
        if release not in releases and any(pattern.fullmatch(id + "/") for id in instances.get(clause["id"], [])):
            releases.append(release)
    return ", ".join(releases)


# ---- the pages ----


def tested_by(clause):
    if "reason" in clause:
        return "none: " + escaped(clause["reason"])
    runs = clause["runs"]
    return "`%s`%s" % (clause["id"], "" if runs == 1 else ", %d runs" % runs)


def by_family(clauses):
    families = {}
    for clause in clauses:
        families.setdefault(clause["id"].split("/")[0], []).append(clause)
    return families


def family_page(family, clauses, instances):
    known = deviations()
    rows = [(escaped(c["clause"]), c["level"], c["dialects"], linked(c.get("source", ""), "../"),
             not_kept_by(c, instances, known), tested_by(c)) for c in clauses]
    return "# %s\n\nGenerated; [README.md](README.md) says what the columns mean.\n\n%s\n" % (
        family, table(["clause", "level", "dialects", "source", "not kept by", "check"], rows))


def family_pages(clauses, instances):
    """{path: text}"""
    return {"docs/protocol/%s.md" % family: family_page(family, members, instances)
            for family, members in by_family(clauses).items()}


def families_table(clauses):
    rows = []
    for family, members in by_family(clauses).items():
        levels = [sum(c["level"] == level for c in members) for level in ("must", "should", "observed")]
        rows.append(("[%s](%s.md)" % (family, family), *map(str, levels),
                     str(sum(c.get("runs", 0) for c in members)),
                     str(sum("reason" in c for c in members))))
    total = [sum(int(row[i]) for row in rows) for i in range(1, 6)]
    return table(["family", "must", "should", "observed", "runs", "without a check"],
                 rows + [("all", *map(str, total))])


def untested_table(clauses):
    rows = [("[%s](%s.md)" % (c["id"], c["id"].split("/")[0]), escaped(c["clause"]), c["level"],
             c["dialects"], escaped(c["reason"])) for c in clauses if "reason" in c]
    return table(["clause", "", "level", "dialects", "why no check"], rows)


def names(clauses, up=""):
    return " ".join("[%s](%s%s.md)" % (c["id"], up, c["id"].split("/")[0]) for c in clauses)


def sections_table(clauses):
    rows = []
    for number, (title, anchor) in sections().items():
        cited = [c for c in clauses if number in sections_of(c.get("source"))]
        if number not in NO_CLAUSES and number != "9":
            rows.append(("[%s](../protocol.md#%s) %s" % (number, anchor, re.sub(r" \[.*\]$", "", escaped(title))),
                         names([c for c in cited if "reason" not in c]), names([c for c in cited if "reason" in c])))
    return table(["section", "tested", "without a check"], rows)


def reports():
    """[(number, what went wrong)] of docs/bugs.md."""
    return [(number, what) for number, what in
            re.findall(r'^\| <a id="\w+"></a>(\w+) \| .*? \| (.*?) \| .*? \|$', read("docs/bugs.md"), re.M)]


def cases_table(clauses):
    rows = []
    for number, what in reports():
        cited = [c for c in clauses if number in reports_of(c.get("source"))]
        rows.append(("[%s](bugs.md#%s)" % (number, number.lower()), what,
                     names([c for c in cited if "reason" not in c], "protocol/"),
                     " ".join("%s: %s." % (names([c], "protocol/"), escaped(c["reason"]).rstrip("."))
                              for c in cited if "reason" in c)))
    return table(["report", "what went wrong", "checks", "no check, and why"], rows)


def gaps(clauses):
    """Reports and sections that no clause cites, and citations of what there is not."""
    cited_reports = {n for c in clauses for n in reports_of(c.get("source"))}
    cited_sections = {n for c in clauses for n in sections_of(c.get("source"))}
    for number, _ in reports():
        if number not in cited_reports:
            yield "docs/cases.md: report %s has neither a check nor a reason" % number
    known = sections()
    for number in known:
        chapter = number.split(".")[0]
        if number not in cited_sections | NO_CLAUSES and chapter != "9":
            yield "docs/protocol.md: section %s has neither a check nor a reason" % number
    for number in sorted(cited_sections - set(known)):
        yield "docs/protocol.md: no section %s, though a clause cites it" % number
