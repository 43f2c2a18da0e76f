"""The include rules of layers.txt against every #include (and some calls) of the tree, and against the table of
ARCHITECTURE.md, which is made from them: `python3 tests/lint/layers.py --table` prints it."""

import os
import re
import sys

import tree

LIBRARIES = re.compile(r"^(uv(/.*)?|curl/.*|sqlite3.*|yaml|yyjson|llhttp|cmocka)\.h$")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)
# Code that is shipped. Tests and benches may look anywhere; they are what proves the layers.
SHIPPED = ("src", "include", "pool", "store")
RULES = "tests/lint/layers.txt"
PAGE = "ARCHITECTURE.md"
BEGIN = "<!-- layers.txt: begin -->"
END = "<!-- layers.txt: end -->"
# Every directory sees one of them, and the other says nothing about layers.
UNSHOWN = ("sandpool/errors.h", "sandpool/version.h")


def load_rules(path):
    rules = []
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            if len(words) < 2 or words[1] not in ("sees", "uses", "not", "calls-not", "calls"):
                sys.exit(f"{path}:{number}: not a rule")
            rules.append((words[0], words[1], words[2:]))
    return rules


def gather(rules, path, verb):
    """All items that the rules give to this file; None when no rule names it."""
    items, named = [], False
    for where, what, things in rules:
        if path == where or path.startswith(where + "/"):
            named = True
            if what == verb:
                items += things
    return items if named else None


def module_of(path):
    """src/base/x.c -> base, src/backends/oci/x.c -> backends/oci, pool/x.c -> pool, include/sandpool/x.h -> sandpool."""
    directory = os.path.dirname(path)
    return re.sub(r"^(src|include)/", "", directory)


def is_allowed(header, items):
    return any(header == i or header.startswith(i + "/") for i in items)


def check_include(root, rules, path, quoted, header):
    if not quoted:
        if f"<{header}>" in gather(rules, path, "not"):
            return f"<{header}> is not for this directory"
        if LIBRARIES.match(header) and not is_allowed(header, gather(rules, path, "uses")):
            return f"<{header}> may only be seen where layers.txt says so"
        return None
    if LIBRARIES.match(header):
        return f'"{header}" is a library: include it with <>'
    if "/" not in header:
        local = os.path.join(root, os.path.dirname(path), header)
        if os.path.exists(local):
            return f'write "{module_of(path)}/{header}", from the top of the include directories'
        return f'"{header}" does not say which directory it is of'
    own = os.path.dirname(header) == module_of(path)
    if header.endswith("/internal.h") and not own:
        return f'"{header}" belongs to its directory alone'
    if own:
        return None
    if header in gather(rules, path, "not") or not is_allowed(header, gather(rules, path, "sees")):
        return f'"{header}" is not among what this directory may see'
    return None


def check_file(root, rules, path):
    offences = []
    if gather(rules, path, "sees") is None:
        return [(path, 1, "no rule in layers.txt names this directory")]
    text = tree.read(root, path)
    for match in INCLUDE.finditer(tree.code_only(text, keep_strings=True)):
        why = check_include(root, rules, path, match.group(1) == '"', match.group(2))
        if why:
            offences.append((path, text.count("\n", 0, match.start(2)) + 1, why))
    calls = set(gather(rules, path, "calls-not")) - set(gather(rules, path, "calls"))
    if calls:
        code = tree.code_only(text)
        for match in re.finditer(r"(?<![\w.>])(" + "|".join(sorted(calls)) + r")\s*\(", code):
            line = text.count("\n", 0, match.start()) + 1
            offences.append((path, line, f"{match.group(1)}() must not be called here"))
    return offences


def check_cycles(root, paths):
    """No two directories may include each other, whatever the rules give them."""
    sees = {}
    for path in paths:
        text = tree.code_only(tree.read(root, path), keep_strings=True)
        for match in INCLUDE.finditer(text):
            to = os.path.dirname(match.group(2))
            if match.group(1) == '"' and to not in ("", module_of(path)):
                sees.setdefault(module_of(path), {}).setdefault(to, path)
    offences = []
    done = set()

    def walk(module, trail):
        if module in trail:
            cycle = trail[trail.index(module):] + [module]
            offences.append((sees[cycle[0]][cycle[1]], 1, "a cycle of directories: " + " -> ".join(cycle)))
        elif module not in done:
            for to in sorted(sees.get(module, {})):
                walk(to, trail + [module])
            done.add(module)

    for module in sorted(sees):
        walk(module, [])
    return offences


def names(things):
    return ", ".join(f"`{t}`" for t in things if t not in UNSHOWN)


def joined(*parts):
    return "; ".join(p for p in parts if p)


def row_of(rules, path, directories):
    """What one line of the table says: (what it sees, whose headers it uses)."""
    def given(where, verb):
        return [t for w, v, things in rules if w == where and v == verb for t in things]

    above = max((d for d in directories if path.startswith(d + "/")), key=len, default="")
    own = names(given(path, "sees"))
    taken = names(t for t in given(path, "not") if not t.startswith("<"))
    files = []
    for where in dict.fromkeys(w for w, v, _ in rules if os.path.dirname(w) == path and w.endswith((".c", ".h"))):
        files.append(joined(names(given(where, "sees")) and f"`{os.path.basename(where)}`: {names(given(where, 'sees'))}"))
    libraries = {}
    for where, verb, things in rules:
        if verb == "uses" and (where == path or os.path.dirname(where) == path and where.endswith(".c")):
            for thing in things:
                libraries.setdefault(thing, []).append("" if where == path else f"`{os.path.basename(where)}`")
    uses = joined(*(f"`{t}`" + (f" in {', '.join(w)}" if all(w) else "") for t, w in libraries.items()))
    sees = joined(f"as `{above}`" + (", and " + own if own else "") if above else own, taken and f"not {taken}", *files)
    return sees or "nothing of ours", uses


def table(rules):
    """Directories with the same rules share a line; a file is in the line of its directory."""
    directories = list(dict.fromkeys(w for w, _, _ in rules if not w.endswith((".c", ".h"))))
    rows = {}
    for path in directories:
        rows.setdefault(row_of(rules, path, directories), []).append(f"`{path}`")
    lines = ["| directory | sees | third-party headers |", "|---|---|---|"]
    lines += [f"| {', '.join(paths)} | {sees} | {uses} |" for (sees, uses), paths in rows.items()]
    return "\n".join(lines)


def check_table(root, rules):
    """The table that people read is the one that is enforced."""
    if not os.path.exists(os.path.join(root, PAGE)):
        return []
    text = tree.read(root, PAGE)
    begin, end = text.find(BEGIN), text.find(END)
    if begin < 0 or end < begin:
        return [(PAGE, 1, f"the lines '{BEGIN}' and '{END}' must stand around the table of layers")]
    line = text.count("\n", 0, begin) + 1
    if text[begin + len(BEGIN):end].strip() == table(rules):
        return []
    return [(PAGE, line, "differs from layers.txt: put the output of `python3 tests/lint/layers.py --table` here")]


def check_names(root, rules):
    """A rule about what is no longer there is read as if it were."""
    if not os.path.exists(os.path.join(root, RULES)):
        return []
    text = tree.read(root, RULES).split("\n")
    offences = []
    for where, verb, things in rules:
        wanted = [(where, ("",))]
        if verb in ("sees", "not"):
            wanted += [(t, ("src", "include", "")) for t in things if t[0] != "<" and t != "sandpool/version.h"]
        for name, tops in wanted:
            if not any(os.path.exists(os.path.join(root, top, name)) for top in tops):
                line = next((n for n, row in enumerate(text, 1) if name in row.split("#")[0].split()), 1)
                offences.append((RULES, line, f"'{name}' is not there"))
    return offences


def main():
    rules = load_rules(os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers.txt"))
    if sys.argv[1] == "--table":
        print(table(rules))
        return
    root = sys.argv[1]
    offences = check_table(root, rules) + check_names(root, rules)
    rules.append(("include", "sees", ["sandpool"]))
    paths = tree.files(root, SHIPPED, (".c", ".h"))
    offences += [o for p in paths for o in check_file(root, rules, p)]
    tree.finish("layers", len(paths), offences + check_cycles(root, paths))


main()
