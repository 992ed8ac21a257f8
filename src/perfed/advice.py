"""The right word for a wrong one: a setting at another level, a paper's letter, another tool's name, a slip of the keyboard."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from . import reference
from .errors import InputError
from .methods import CATALOGUE
from .reference import CHOICES, GROUPS, Setting
from .words import ELSEWHERE, GREEK, LETTERS, NAMES, TELLS

OBJECT = {"object", "made", "known", "options"}  # of a part that was an object, or is one: its name is in no catalogue


def unknown(key: str, raw: Mapping[str, Any] | None = None, named: Iterable[str] | None = None) -> InputError:
    """Return the sentence for a setting that there is not, with the one that was probably meant.

    Args:
        key: what stands before the equals sign.
        raw: the settings as far as they are known: which method, partition, network and data set are meant.
        named: the methods that are meant, where there are several.
    """
    chosen = names(raw or {})
    methods = [name for name in (named or [chosen["method"]]) if name in CATALOGUE]
    start = f"no setting '{key}'"
    part, dot, word = key.strip("-").rpartition(".")
    if part in CHOICES and part != "method" and not _options(part, chosen[part]):
        start, others = f"{part} {chosen[part]} has no options", _homes(part, word)
        return InputError(start + (f"; '{key}' belongs to {others}" if others else ""))
    if not dot and word.lower() in TELLS:
        return InputError(f"{start}; {TELLS[word.lower()]}")
    if part in CHOICES and part != "method" and (others := _homes(part, word)):
        return InputError(f"{part} {chosen[part]} has no option '{word}'; '{key}' belongs to {others}")
    scope = _scope(chosen, methods)
    if dot and (hint := _beside(part, word, scope, 0.8)):
        return InputError(f"{start}; {hint}")
    for hint in (
        _symbol(part, word, scope, methods),
        _here(part, word, scope),
        _foreign(word, scope) if part != "method" or word.lower() not in _leaves() else "",
        _beside(part, word, scope, 0.85),
        _there(word),
        _slip(key, part, word, scope),
    ):
        if hint:
            return InputError(f"{start}; {hint}")
    known = sorted(_options(part, methods[0] if part == "method" and methods else chosen.get(part, ""))) if dot else []
    return InputError(f"{start}; {'there are ' + ', '.join(known) if known else '`perfed settings` lists every one'}")


def said(raw: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Return settings with the names that overrides will choose, so that advice on one of them knows of those after it."""
    later = {key: value for key, _, value in (text.partition("=") for text in overrides) if key in CHOICES}
    return {**raw, **later}


def check(raw: Mapping[str, Any]) -> None:
    """Refuse an option that what is chosen does not have, and several values where one belongs."""
    chosen = names(raw)
    for part in CHOICES:
        if isinstance(raw.get(part), str) and "," in raw[part] and ":" not in raw[part]:
            raise _several_names(part, raw[part])
        given = isinstance(raw.get(part), str) or (isinstance(raw.get(part), Mapping) and not raw[part].keys() & OBJECT)
        if given and part != "data":  # silos have names of their own for their data
            _unknown_name(part, chosen[part])
    for part in (*CHOICES, *GROUPS):
        own = raw.get(part)
        if not isinstance(own, Mapping) or own.keys() & OBJECT:
            continue
        known = _options(part, chosen.get(part, ""))
        if part in CHOICES and not known and (part != "model" or ":" in chosen[part]):
            continue  # code of one's own, or a name that will be refused by itself
        for option, value in own.items():
            if option == "name" or (part == "method" and option in ("budget", "norm", "weighting")):
                continue
            if option not in known:
                raise unknown(f"{part}.{option}", raw)
            _one(f"{part}.{option}", value, known[option])
    for s in reference.top():
        if s.path in raw and s.path not in CHOICES:
            _one(s.path, raw[s.path], s)
    turned = [name for name in ("flip", "rotate", "crop") if name in (raw.get("inputs") or {})]
    if turned and not raw.get("augment"):
        raise InputError(f"inputs.{turned[0]} changes training pictures at random, which augment=true switches on")


def check_data(raw: Mapping[str, Any]) -> None:
    """Refuse a data set that is in no catalogue, with the one that was probably meant."""
    given = raw.get("data")
    name = given.get("name") if isinstance(given, Mapping) and not given.keys() & OBJECT else given
    if isinstance(name, str):
        if "," in name and ":" not in name:
            raise _several_names("data", name)
        _unknown_name("data", name)


def _unknown_name(part: str, name: str) -> None:
    """Refuse a name that is in no catalogue, with the one that was probably meant; code of one's own has a colon."""
    known = set(CATALOGUE) if part == "method" else reference.names(part)
    if ":" in name or name in known or not known:
        return
    bare = {own.replace("_", ""): own for own in known}
    short = re.sub(r"[^a-z0-9]", "", name.lower())
    meant = NAMES[part].get(short) or bare.get(short)
    near = [meant] if meant else get_close_matches(name.lower(), sorted(known), n=1, cutoff=0.5)
    what = "data set" if part == "data" else part
    hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(sorted(known))}"
    raise InputError(f"no {what} '{name}'; {hint}")


def _several_names(part: str, text: str) -> InputError:
    if part == "method":
        return InputError(f"`perfed run` trains one method; `perfed compare methods={text}` trains several side by side")
    what = {"data": "data set", "model": "network", "partition": "partition"}[part]
    return InputError(f"{part}={text}: an experiment has one {what}; start a run for each")


def _one(path: str, value: Any, known: Setting) -> None:
    """Refuse several values for a setting that takes one."""
    listed = isinstance(value, list | tuple) or (isinstance(value, str) and re.fullmatch(r"[\d.eE+-]+(,[\d.eE+-]+)+", value))
    if not listed or "list" in known.type:
        return
    shown = value if isinstance(value, str) else reference.plain(value)
    how = "`perfed compare methods=ditto:spring=0.1,ditto:spring=1` compares variants of a method"
    if path.startswith("method.") and known.applies:
        first, last = (f"{known.applies[0]}:{known.leaf}={part}" for part in (shown.split(",")[0], shown.split(",")[-1]))
        how = f"`perfed compare methods={first},{last}` compares variants"
    raise InputError(
        f"{path} takes one value, got {shown}; {how}"
        + ("" if "." in path and "method." in path else ", else start a run for each")
    )


def names(raw: Mapping[str, Any]) -> dict[str, str]:
    """Return the method, partition, network and data set that settings name, or the usual ones."""
    usual = {s.path: str(s.default) for s in reference.top() if s.path in CHOICES}
    for part in CHOICES:
        own = raw.get(part)
        own = own.get("name") if isinstance(own, Mapping) else getattr(own, "name", own)
        if isinstance(own, str):
            usual[part] = _scheme(own) if part == "data" else own
    if usual["partition"] == "None":
        usual["partition"] = "dirichlet"
    return usual


def _scheme(name: str) -> str:
    head, colon, _ = name.partition(":")
    return head + colon


def _options(part: str, name: str) -> dict[str, Setting]:
    return reference.options(part, name) if part in (*CHOICES, *GROUPS) else {}


def _scope(chosen: Mapping[str, str], methods: Iterable[str]) -> dict[str, Setting]:
    """Return every setting that has an effect with what is chosen, by its path."""
    found = {s.path: s for s in reference.top()}
    for part in (*GROUPS, *CHOICES):
        for name in methods if part == "method" else [chosen.get(part, "")]:
            found |= {s.path: s for s in _options(part, name).values()}
    return found


def _homes(part: str, word: str) -> str:
    found = [s.applies for s in reference.everything() if s.path == f"{part}.{word}"]
    return ", ".join(dict.fromkeys(name for own in found for name in own))


def _symbol(part: str, word: str, scope: Mapping[str, Setting], methods: list[str]) -> str:
    """Return which field a paper's letter names: in the chosen method first, then anywhere else."""
    letter = _letter(word)
    if not letter or part not in ("", "method", "budget", "partition"):
        return ""
    for s in scope.values():
        if s.path.startswith("method.") and letter in _letters(s):
            return f"{letter} of {', '.join(s.applies)} is '{s.path}'"
    if part == "method":
        return _of_others(letter, methods)
    if word == "alpha":
        return ""  # the partition's by its own name
    for s in scope.values():
        if letter in _letters(s):
            return f"{letter} is '{s.path}'"
    return f"{letter} is '{LETTERS[letter]}'" if letter in LETTERS else _of_others(letter, methods)


def _of_others(letter: str, methods: list[str]) -> str:
    found = {s.applies[0]: s.leaf for s in reference.everything() if s.path.startswith("method.") and letter in _letters(s)}
    if not found:
        return ""
    homes = ", ".join(f"{leaf} in {name}" for name, leaf in found.items())
    return f"{' and '.join(methods) or 'the method'} has no {letter}; it is {homes}"


def _letter(word: str) -> str:
    """Return the letter that a word names: ``mu`` and ``μ`` alike, ``lambda_ent`` with its index."""
    head, _, index = word.partition("_")
    letter = GREEK.get(head.lower()) or (head if len(head) == 1 else "")
    return f"{letter}_{index}" if letter and index else letter


def _letters(s: Setting) -> set[str]:
    """Return the letters that a setting's meaning begins with."""
    found = re.match(r"((?:[^\W\d](?:_\w+)?(?: in [\w ]+?)?, )+)", s.meaning)
    return {part.split(" in ")[0] for part in found[1].strip(", ").split(", ")} if found else set()


def _here(part: str, word: str, scope: Mapping[str, Setting]) -> str:
    """Return the setting of this very name at another level that has an effect here."""
    leaf = word.lower().replace("-", "_")
    if leaf in scope:  # at the top
        return f"did you mean '{leaf}'?"
    found = [path for path in scope if path.rpartition(".")[2] == leaf and path.rpartition(".")[0] != part]
    return f"did you mean '{min(found, key=_order)}'?" if found else ""


def _there(word: str) -> str:
    """Return what would have to be chosen for a setting of this very name to have an effect."""
    found = [s for s in reference.everything() if s.leaf == word.lower().replace("-", "_")]
    if not found:
        return ""
    part, homes = found[0].path.partition(".")[0], _homes(found[0].path.partition(".")[0], found[0].leaf)
    return f"'{found[0].path}' belongs to {homes}: {part}={homes.split(', ')[0]} {found[0].example}"


def _leaves() -> set[str]:
    return {s.leaf for s in reference.everything() if "." in s.path}


def _order(path: str) -> int:
    return ("method", "budget", "partition", "sampling", "privacy", "join", "attack", "model", "data", "inputs", "text").index(
        path.partition(".")[0]
    )


def _foreign(word: str, scope: Mapping[str, Setting]) -> str:
    """Return ours for another tool's word."""
    ours = ELSEWHERE.get(word.lower().replace("-", "_"))
    if ours is None:
        return ""
    if ours not in scope and ours.startswith("method."):
        homes = _homes("method", ours.partition(".")[2])
        return f"'{ours}' of {homes} is what you may mean"
    shares = {"clients_per_round", "client_num_per_round", "join_clients", "min_fit_clients"}
    more = " It is a share, such as 0.5." if word.lower() in shares else ""
    return f"did you mean '{ours}'?{more}"


def _beside(part: str, word: str, scope: Mapping[str, Setting], cutoff: float) -> str:
    beside = {path.rpartition(".")[2]: path for path in scope if path.rpartition(".")[0] == part}
    near = get_close_matches(word.lower().replace("-", "_"), beside, n=1, cutoff=cutoff)
    return f"did you mean '{beside[near[0]]}'?" if near else ""


def _slip(key: str, part: str, word: str, scope: Mapping[str, Setting]) -> str:
    """Return the nearest setting by its letters: first in the part that was meant."""
    whole, leaf = key.lower().strip("-").replace("-", "_"), word.lower().replace("-", "_")
    if hint := _beside(part, word, scope, 0.6):
        return hint
    if near := get_close_matches(whole, scope, n=1, cutoff=0.75):
        return f"did you mean '{near[0]}'?"
    leaves = {path.rpartition(".")[2]: path for path in sorted(scope, key=lambda path: -path.count("."))}
    if near := get_close_matches(leaf, leaves, n=1, cutoff=0.7):
        return f"did you mean '{leaves[near[0]]}'?"
    if near := get_close_matches(leaf, ELSEWHERE, n=1, cutoff=0.8):
        return _foreign(near[0], scope)
    return ""
