#!/usr/bin/env python3
"""ptx_to_cc.py PTX SOURCE: the kernels of a PTX file as C++ for tests/fakes/emulator.

What a build ships runs on CPUs by this, inline assembly included. Each instruction becomes one call
of ptx.h, by the rules of NVIDIA's "PTX ISA" manual. A register is a variable of its bits. An
instruction that this file does not know ends the translation with an error.
"""

import re
import sys

CTYPES = {f"{kind}{bits}": f"{name}{bits}_t" for kind, name in (("b", "uint"), ("u", "uint"), ("s", "int"))
          for bits in (8, 16, 32, 64)} | {"f32": "float", "f64": "double", "pred": "bool"}
REGISTERS = {"p": "bool", "rs": "uint16_t", "r": "uint32_t", "f": "uint32_t", "rd": "uint64_t",
             "fd": "uint64_t", "SP": "uint64_t", "SPL": "uint64_t"}
WIDE = {"u16": "uint32_t", "s16": "int32_t", "u32": "uint64_t", "s32": "int64_t"}
SPECIAL = {"%tid.x": "ThreadX()", "%ctaid.x": "BlockX()", "%ctaid.y": "BlockY()"}
UNARY = {"neg": "Neg", "not": "Not", "abs": "Abs", "sqrt": "Sqrt", "rcp": "Rcp", "ex2": "Ex2", "lg2": "Lg2"}
BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "rem": "Rem", "and": "And", "or": "Or",
          "xor": "Xor", "min": "Min", "max": "Max"}
COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
# An exchange between a warp's lanes, or a copy, in full: another form has another meaning.
SHUFFLE = "shfl.sync.bfly.b32"
MATRICES = {"ldmatrix.sync.aligned.m8n8.x4.shared.b16": "LoadMatrices",
            "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16": "LoadTransposed"}
MULTIPLY = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
COPY = "cp.async.cg.shared.global"


class Kernel:
    def __init__(self, name, bytes_, threads, body):
        self.name, self.bytes, self.threads, self.body = name, bytes_, threads, body
        self.local = set()

    def refuse(self, what):
        sys.exit(f"{self.name}: {what}: ptx_to_cc.py does not know this")

    def variable(self, register):
        """(its name in C++, its type)"""
        found = re.fullmatch(r"%(rs|rd|r|fd|f|p|SPL|SP)(\d*)", register)
        if not found:
            self.refuse(f"register {register}")
        return register[1:], REGISTERS[found[1]]

    def read(self, operand, ctype):
        """The operand as a value of the type."""
        if operand in SPECIAL:
            return f"static_cast<{ctype}>({SPECIAL[operand]})"
        if operand.startswith("%"):
            name, register = self.variable(operand)
            return name if register == "bool" else f"Get<{ctype}>({name})"
        if re.fullmatch(r"-?\d+|0x[0-9a-fA-F]+", operand):
            return f"static_cast<{ctype}>({operand}LL)"
        bits = re.fullmatch(r"0([fd])([0-9a-fA-F]+)", operand)
        if bits:
            return f"Get<{ctype}>(0x{bits[2]}{'U' if bits[1] == 'f' else 'ULL'})"
        return f"Get<{ctype}>({self.symbol(operand)})"

    def symbol(self, name):
        """The address of a variable in its own space."""
        if name == f"{self.name}_param_0":
            return "AddressOf(arguments)"
        if name in self.local:
            return f"AddressOf({name})"
        if "gpu_shared_" in name:
            return "uint64_t{0}"
        return self.refuse(f"symbol {name}")

    def write(self, register, value):
        name, ctype = self.variable(register)
        return f"{name} = {value};" if ctype == "bool" else f"{name} = Put<{ctype}>({value});"

    def address(self, operand, space):
        base, offset = re.fullmatch(r"\[([%\w$.]+?)(?:\+(-?\d+))?\]", operand).groups()
        at = f"{self.read(base, 'uint64_t')} + ({offset or 0}LL)"
        return f"SharedAt({at})" if space == "shared" else at

    def access(self, words, operands):
        """ld and st, of one value or a vector."""
        ctype = CTYPES[words[-1]]
        count = int(words[-2][1:]) if re.fullmatch(r"v\d", words[-2]) else 1
        place, values = (operands[1], operands[0]) if words[0] == "ld" else operands
        registers = [value.strip() for value in values.strip("{}").split(",")]
        at = f"auto* at = At<{ctype}, {count}>({self.address(place, words[1])}); "
        if words[0] == "ld":
            moves = [self.write(register, f"at[{i}]") for i, register in enumerate(registers)]
        else:
            moves = [f"at[{i}] = {self.read(register, ctype)};" for i, register in enumerate(registers)]
        return f"{{ {at}{' '.join(moves)} }}"

    def convert(self, words, operands):
        if words == ["cvt", "rn", "bf16x2", "f32"]:
            upper, lower = (self.read(operand, "float") for operand in operands[1:])
            return self.write(operands[0], f"Bf16x2({upper}, {lower})")
        to, of = words[-2:]
        if to[0] != "f" and of[0] == "f":
            self.refuse(".".join(words))
        return self.write(operands[0], f"static_cast<{CTYPES[to]}>({self.read(operands[1], CTYPES[of])})")

    def compare(self, words, operands):
        ctype, how = CTYPES[words[-1]], words[1]
        a, b = (self.read(operand, ctype) for operand in operands[1:])
        is_float = ctype in ("float", "double")
        if is_float and how[:-1] in COMPARISONS and how.endswith("u"):  # or unordered
            ordered = f"Compare(a, b, [](auto x, auto y) {{ return x {COMPARISONS[how[:-1]]} y; }})"
            return f"{{ const auto a = {a}, b = {b}; {self.write(operands[0], f'(a != a || b != b || {ordered})')} }}"
        value = f"Compare({a}, {b}, [](auto x, auto y) {{ return x {COMPARISONS[how]} y; }})"
        if is_float and how == "ne":  # and ordered
            value = f"Compare({a}, {b}, [](auto x, auto y) {{ return x < y || x > y; }})"
        return self.write(operands[0], value)

    def of_warp(self, operation, operands):
        """Instructions of all lanes together, and copies."""
        def words(vector, ctype):
            return [self.read(register.strip(), ctype) for register in vector.strip("{}").split(",")]

        if operation == SHUFFLE and operands[3:] == ["31", "0xffffffff"]:
            value, mask = (self.read(operand, "uint32_t") for operand in operands[1:3])
            return self.write(operands[0], f"ShuffleXor({value}, {mask})")
        if operation in MATRICES:
            registers = [register.strip() for register in operands[0].strip("{}").split(",")]
            row = self.address(operands[1], "shared")
            moves = " ".join(self.write(register, f"to[{i}]") for i, register in enumerate(registers))
            return f"{{ uint32_t to[4]; {MATRICES[operation]}(to, {row}); {moves} }}"
        if operation == MULTIPLY:
            a, b = (", ".join(words(vector, "uint32_t")) for vector in operands[1:3])
            c = ", ".join(words(operands[3], "float"))
            registers = [register.strip() for register in operands[0].strip("{}").split(",")]
            moves = " ".join(self.write(register, f"d[{i}]") for i, register in enumerate(registers))
            return f"{{ float d[4] = {{{c}}}; MultiplyAdd(d, {{{a}}}, {{{b}}}); {moves} }}"
        if operation == COPY and operands[2] == "16":
            to, of = self.address(operands[0], "shared"), self.address(operands[1], "global")
            return f"Copy16({to}, {of}, {self.read(operands[3], 'uint32_t')});"
        return self.refuse(operation)

    def instruction(self, line):
        guarded = re.match(r"@(!?)%(p\d+)\s+(.*)", line)
        if guarded:
            return f"if ({guarded[1]}{guarded[2]}) {{ {self.instruction(guarded[3])} }}"
        operation, _, rest = line.partition(" ")
        words = operation.split(".")
        operands = [part.strip() for part in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*", rest)]
        first, ctype = words[0], CTYPES.get(words[-1])
        if operation == "ret":
            return "return;"
        if first == "bra":
            return f"goto {label(operands[0])};"
        if operation == "bar.sync":
            return "Barrier();"
        if operation == "cp.async.commit_group":
            return "Commit();"
        if operation == "cp.async.wait_group":
            return f"WaitGroup({operands[0]});"
        if first in ("shfl", "ldmatrix", "mma", "cp"):
            return self.of_warp(operation, operands)
        if operation == "upper_half":
            return self.write(operands[0], f"static_cast<uint32_t>({self.read(operands[1], 'uint64_t')} >> 32)")
        if first in ("ld", "st"):
            return self.access(words, operands)
        if first == "mov":
            return self.write(operands[0], self.read(operands[1], ctype))
        if first == "cvta":
            to, space = words[1] == "to", words[2] if words[1] == "to" else words[1]
            value = self.read(operands[1], "uint64_t")
            if space == "shared":
                value = f"{'ToShared' if to else 'FromShared'}({value})"
            return self.write(operands[0], value)
        if first == "cvt":
            return self.convert(words, operands)
        if first == "setp":
            return self.compare(words, operands)
        if first == "selp":
            a, b = (self.read(operand, ctype) for operand in operands[1:3])
            return self.write(operands[0], f"{self.read(operands[3], 'bool')} ? {a} : {b}")
        if first in ("shl", "shr"):
            value, by = self.read(operands[1], ctype), self.read(operands[2], "uint32_t")
            return self.write(operands[0], f"{first.capitalize()}<{ctype}>({value}, {by})")
        if first == "bfe" and words[-1] == "u32":
            return self.write(operands[0], f"Bfe({', '.join(self.read(each, 'uint32_t') for each in operands[1:])})")
        return self.arithmetic(words, operands, ctype)

    def arithmetic(self, words, operands, ctype):
        first = words[0]
        if ctype in ("float", "double") and first in ("add", "sub", "mul", "div", "fma", "mad") and "rn" not in words:
            sys.exit(f"{self.name}: {'.'.join(words)} has no .rn: ptxas may fuse it with another")
        values = [self.read(operand, ctype) for operand in operands[1:]]
        if first in ("mul", "mad") and "wide" in words:
            wide = WIDE[words[-1]]
            product = f"static_cast<{wide}>({values[0]}) * static_cast<{wide}>({values[1]})"
            if first == "mad":
                product = f"Add<{wide}>({product}, {self.read(operands[3], wide)})"
            return self.write(operands[0], product)
        if first in UNARY and len(values) == 1:
            return self.write(operands[0], f"{UNARY[first]}<{ctype}>({values[0]})")
        if first in BINARY and len(values) == 2 and "hi" not in words:
            return self.write(operands[0], f"{BINARY[first]}<{ctype}>({values[0]}, {values[1]})")
        if first in ("fma", "mad") and len(values) == 3 and "hi" not in words:
            return self.write(operands[0], f"MulAdd<{ctype}>({', '.join(values)})")
        return self.refuse(".".join(words))

    def source(self):
        declarations, statements = [], []
        for line in filter(None, (line.strip() for line in self.body.splitlines())):
            registers = re.fullmatch(r"\.reg\s+\.\w+\s+%(\w+)<(\d+)>;", line)
            alone = re.fullmatch(r"\.reg\s+\.b64\s+%(SPL?);", line)
            local = re.fullmatch(r"\.local\s+\.align\s+(\d+)\s+\.b8\s+(\w+)\[(\d+)\];", line)
            target = re.fullmatch(r"([\w$]+):", line)
            if registers:
                names = ", ".join(f"{registers[1]}{i}{{}}" for i in range(int(registers[2])))
                declarations.append(f"{REGISTERS[registers[1]]} {names};")
            elif alone:
                declarations.append(f"uint64_t {alone[1]}{{}};")
            elif local:
                self.local.add(local[2])
                declarations.append(f"alignas({local[1]}) char {local[2]}[{local[3]}];")
            elif target:
                statements.append(f"{label(target[1])}:;")
            elif line.startswith(".pragma"):
                continue
            elif line.startswith("."):
                self.refuse(line)
            else:
                statements += [self.instruction(part.strip()) for part in line.split(";") if part.strip()]
        lines = "\n  ".join(declarations + statements)
        return f"static void {self.name}(const char* arguments) {{\n  {lines}\n}}\n" \
               f'static const bool registered_{self.name} = RegisterPtx("{self.name}", {self.bytes}, ' \
               f"{self.threads}, {self.name});\n"


def label(name):
    return "label" + name.replace("$", "_")


def main():
    with open(sys.argv[1], encoding="ascii") as file:
        text = re.sub(r"[ \t]+", " ", re.sub(r"//.*", "", file.read()))
    text = re.sub(r"\{ \.reg \.b32 tmp; mov\.b64 \{tmp, (%r\d+)\}, (%rd\d+); \}", r"upper_half \1, \2;", text)
    entry = r"\.visible \.entry (\w+)\(\s*\.param \.align \d+ \.b8 \w+\[(\d+)\]\s*\)\s*\.maxntid (\d+), 1, 1\s*\{(.*?)\n\}"
    kernels = [Kernel(*found.groups()) for found in re.finditer(entry, text, re.DOTALL)]
    if len(kernels) != text.count(".entry ") or not kernels:
        sys.exit(f"{len(kernels)} of {text.count('.entry ')} kernels were found in {sys.argv[1]}")
    with open(sys.argv[2], "w", encoding="ascii") as out:
        out.write('#include "tests/fakes/ptx/ptx.h"\n\nnamespace lockstep::ptx {\nnamespace {\n\n')
        out.write("\n".join(kernel.source() for kernel in kernels))
        out.write("\n}  // namespace\n}  // namespace lockstep::ptx\n")


if __name__ == "__main__":
    main()
