"""Launchers in a command, as CEL sees them: a program called directly, by `python -m` with at most
one option before it, `accelerate launch`, or in the open in the script of a shell.

core/plan/launcher.cc also looks through env, timeout and their like, quotes and further options.
What only core finds, the operator fails with the same message.
"""

from crd.names import (TORCHRUN, TORCHRUN_MODULES, UNSUPPORTED_LAUNCHERS, UNSUPPORTED_MODULES,
                       listed, one_of)

_WORD = r"[^\s;|&()\x27\x22\\]"  # a letter of an unquoted word
_GAP = r"[ \t]+"
_ACCELERATE = ("accelerate", "launch")


def no_torchrun(holder):
    """That `holder`, which has a command, doesn't start torchrun in its command and args."""
    return _none_of(holder, TORCHRUN, TORCHRUN_MODULES)


def no_unsupported(holder):
    """The same of every other launcher."""
    return _none_of(holder, UNSUPPORTED_LAUNCHERS, UNSUPPORTED_MODULES, _ACCELERATE)


def _in_script(programs, modules, pair):
    """A program at the start of a script or behind ; | & ( ) or a line's end, with no quotes
    before it.
    """
    of_pair = _GAP.join(pair) + "|" if pair else ""
    return (
        r"^([^\x27\x22\\]*[;|&\n()])?[ \t\r]*"
        f"((exec|env|[A-Za-z_][A-Za-z0-9_]*={_WORD}*){_GAP})*({_WORD}*/)?("
        f"{one_of(programs)}|{of_pair}"
        f"python[0-9.]*{_GAP}(-[^XWm]{_GAP})?-m{_GAP}{one_of(modules)})([\\s;|&()]|$)")


def _none_of(holder, programs, modules, pair=None):
    """`pair`: a program that is a launcher where this word follows it."""
    def word(index):
        command, args = f"{holder}.command", f"{holder}.args"
        rest = f"{index} - {command}.size()"
        return (f"({command}.size() > {index} ? {command}[{index}] : "
                f"has({args}) && {args}.size() > {rest} ? {args}[{rest}] : '')")

    program = word(0)
    names = listed(modules)
    return "!(" + " || ".join([
        f"{program}.matches(r'(^|/){one_of(programs)}$')",
        *([f"({program}.matches(r'(^|/){pair[0]}$') && {word(1)} == '{pair[1]}')"] if pair else []),
        f"({program}.matches(r'(^|/)python[0-9.]*$') && "
        f"(({word(1)} == '-m' && {word(2)} in {names}) || "
        f"({word(1)}.matches('^-[^XWm]$') && {word(2)} == '-m' && {word(3)} in {names})))",
        f"({program}.matches(r'(^|/)(sh|bash|dash|ash|zsh)$') && "
        f"{word(1)}.matches('^-([^-].*)?c$') && "
        f"{word(2)}.matches(r'{_in_script(programs, modules, pair)}'))",
    ]) + ")"
