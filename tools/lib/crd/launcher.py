"""Launchers in a command, as CEL sees them: a program called directly, by `python -m` with at most
one option before it, `accelerate launch`, or in the open in the script of a shell.

core/plan/launcher.cc also looks through env, quotes and further options. What only core finds, the
operator fails with the same message.
"""

from crd.names import LAUNCHER_MODULES, LAUNCHERS, listed, one_of

_WORD = r"[^\s;|&()\x27\x22\\]"  # a letter of an unquoted word
_GAP = r"[ \t]+"
# A program at the start of a script or behind ; | & ( ) or a line's end, with no quotes before it.
_IN_SCRIPT = (
    r"^([^\x27\x22\\]*[;|&\n()])?[ \t\r]*"
    f"((exec|env|[A-Za-z_][A-Za-z0-9_]*={_WORD}*){_GAP})*({_WORD}*/)?("
    f"{one_of(LAUNCHERS)}|accelerate{_GAP}launch|"
    f"python[0-9.]*{_GAP}(-[^XWm]{_GAP})?-m{_GAP}{one_of(LAUNCHER_MODULES)})([\\s;|&()]|$)")


def no_launcher(holder):
    """That no launcher stands in `holder`'s command and args; `holder` has a command."""
    def word(index):
        command, args = f"{holder}.command", f"{holder}.args"
        rest = f"{index} - {command}.size()"
        return (f"({command}.size() > {index} ? {command}[{index}] : "
                f"has({args}) && {args}.size() > {rest} ? {args}[{rest}] : '')")

    program = word(0)
    modules = listed(LAUNCHER_MODULES)
    return "!(" + " || ".join([
        f"{program}.matches(r'(^|/){one_of(LAUNCHERS)}$')",
        f"({program}.matches(r'(^|/)accelerate$') && {word(1)} == 'launch')",
        f"({program}.matches(r'(^|/)python[0-9.]*$') && "
        f"(({word(1)} == '-m' && {word(2)} in {modules}) || "
        f"({word(1)}.matches('^-[^XWm]$') && {word(2)} == '-m' && {word(3)} in {modules})))",
        f"({program}.matches(r'(^|/)(sh|bash|dash|ash|zsh)$') && "
        f"{word(1)}.matches('^-([^-].*)?c$') && {word(2)}.matches(r'{_IN_SCRIPT}'))",
    ]) + ")"
