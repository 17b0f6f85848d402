//===- AssemblerCommands.cpp - tilewright asm, tilewright disasm ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/Assembler.h"
#include "isa/Program.h"
#include "isa/files/InputFile.h"
#include "runtime/Files.h"
#include "runtime/cli/Cli.h"

#include <filesystem>

using namespace tw;
using namespace tw::cli;

namespace {

struct AssemblerArguments {
  std::string file, machine, output;
  std::vector<std::string> overrides;
};

Status assemble(const AssemblerArguments &arguments) {
  Result<std::string> text = files::readFile(arguments.file);
  if (!text)
    return userError(text.message());
  std::string name = arguments.machine;
  if (name.empty()) {
    Result<isa::Program> program = isa::assemble(*text, arguments.file);
    if (!program)
      return userError(program.message());
    name = program->machine;
  }
  std::optional<timing::MachineParams> machine;
  if (!name.empty()) {
    std::vector<std::string> notes;
    StatusOr<timing::MachineParams> loaded = runtime::loadMachine(name, arguments.overrides, notes);
    if (!loaded)
      return loaded.error();
    machine = std::move(*loaded);
  }
  Result<isa::Program> program = isa::assemble(*text, arguments.file, machine ? &*machine : nullptr);
  if (!program)
    return userError(program.message());
  std::vector<uint8_t> image = isa::serialize(*program);
  std::string output = arguments.output.empty()
                           ? std::filesystem::path(arguments.file).filename().replace_extension(".twp").string()
                           : arguments.output;
  return runtime::writeFile(output, {reinterpret_cast<const char *>(image.data()), image.size()});
}

Status disassemble(const AssemblerArguments &arguments) {
  Result<std::string> bytes = files::readFile(arguments.file);
  if (!bytes)
    return userError(bytes.message());
  Result<isa::Program> program = isa::deserialize({bytes->begin(), bytes->end()}, arguments.file);
  if (!program)
    return userError(program.message());
  return runtime::writeFile(arguments.output.empty() ? "-" : arguments.output, isa::disassemble(*program));
}

} // namespace

void cli::addAssemblerCommands(CLI::App &app, Action &action) {
  auto arguments = std::make_shared<AssemblerArguments>();
  CLI::App *assembler = app.add_subcommand("asm", "assemble a program");
  assembler->add_option("FILE", arguments->file, "assembler text (.tasm)")->required();
  assembler->add_option("--hw", arguments->machine, "machine to check against; default: the one the program names");
  addRepeated(*assembler, "--set", arguments->overrides, "KEY=VALUE overrides a key of the machine")->type_name("KEY=VALUE");
  assembler->add_option("-o,--output", arguments->output, "program image; default: the file's name with .twp");
  assembler->callback([arguments, &action] { action = [arguments] { return assemble(*arguments); }; });
  CLI::App *disassembler = app.add_subcommand("disasm", "print a program image as assembler text");
  disassembler->add_option("FILE", arguments->file, "program image (.twp)")->required();
  disassembler->add_option("-o,--output", arguments->output, "text file; default: standard output");
  disassembler->callback([arguments, &action] { action = [arguments] { return disassemble(*arguments); }; });
}
