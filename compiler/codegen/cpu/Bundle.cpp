//===- Bundle.cpp - A network as a library for C programs -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/Bundle.h"
#include "compiler/codegen/cpu/MemoryPlan.h"
#include "compiler/codegen/cpu/NativeCode.h"
#include "isa/Printable.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Object/ArchiveWriter.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Triple.h"
#include <set>

using tw::frontend::ElementKind;

namespace tw::cpu {

namespace {

llvm::Error failure(const llvm::Twine &message) { return llvm::createStringError(llvm::inconvertibleErrorCode(), message); }

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// The keywords of C11, and what the header itself calls arguments and types.
bool isReserved(llvm::StringRef name) {
  static const std::set<llvm::StringRef> words = {
      "auto",     "break",       "case",     "char",    "const",  "continue", "default", "do",      "double",   "else",
      "enum",     "extern",      "float",    "for",     "goto",   "if",       "inline",  "int",     "long",     "register",
      "restrict", "return",      "short",    "signed",  "sizeof", "static",   "struct",  "switch",  "typedef",  "union",
      "unsigned", "void",        "volatile", "while",   "asm",    "class",    "new",     "delete",  "template", "this",
      "arena",    "arena_bytes", "threads",  "weights", "size_t", "int8_t",   "uint8_t", "int16_t", "uint16_t", "int32_t",
      "uint32_t", "int64_t",     "uint64_t", "bool",    "main",   "NULL",     "linux",   "unix"};
  return words.count(name) || name.starts_with("_");
}

std::string identifier(llvm::StringRef name, llvm::StringRef prefix) {
  std::string result;
  for (char c : name)
    result += llvm::isAlnum(c) || c == '_' ? c : '_';
  if (result.empty() || llvm::isDigit(result[0]) || isReserved(result))
    result = (prefix + result).str();
  return result;
}

} // namespace

std::vector<std::string> argumentNames(llvm::ArrayRef<BundleTensor> tensors, llvm::StringRef prefix, llvm::StringSet<> &taken) {
  std::vector<std::string> names;
  for (const BundleTensor &tensor : tensors) {
    const std::string stem = identifier(tensor.name, prefix);
    std::string name = stem;
    for (unsigned number = 2; !taken.insert(llvm::StringRef(name).upper()).second; ++number)
      name = stem + "_" + std::to_string(number);
    names.push_back(name);
  }
  return names;
}

const char *cType(ElementKind kind) {
  switch (kind) {
  case ElementKind::F32:
    return "float";
  case ElementKind::F64:
    return "double";
  case ElementKind::F16:
  case ElementKind::BF16:
  case ElementKind::U16:
    return "uint16_t";
  case ElementKind::I8:
    return "int8_t";
  case ElementKind::U8:
  case ElementKind::Bool:
    return "uint8_t";
  case ElementKind::I16:
    return "int16_t";
  case ElementKind::I32:
    return "int32_t";
  case ElementKind::U32:
    return "uint32_t";
  case ElementKind::I64:
    return "int64_t";
  case ElementKind::U64:
    return "uint64_t";
  }
  llvm_unreachable("every kind is handled");
}

//===----------------------------------------------------------------------===//
// The header
//===----------------------------------------------------------------------===//

std::string commentText(const std::string &text) {
  std::string result = printable(text);
  for (const char *mark : {"*/", "/*"})
    for (size_t at = 0; (at = result.find(mark, at)) != std::string::npos;)
      result.insert(at + 1, " ");
  return result;
}

std::string tensorLines(llvm::StringRef bundle, llvm::StringRef kind, const BundleTensor &tensor, llvm::StringRef name) {
  std::string text, shape;
  int64_t count = 1;
  for (int64_t extent : tensor.shape) {
    shape += (shape.empty() ? "" : ", ") + std::to_string(extent);
    count *= extent;
  }
  const std::string macro = bundle.upper() + "_" + name.upper();
  llvm::raw_string_ostream stream(text);
  stream << "/* " << kind << " '" << commentText(tensor.name) << "': " << frontend::elementName(tensor.type) << " [" << shape
         << "], row-major" << (tensor.note.empty() ? "" : "; " + tensor.note) << " */\n"
         << "#define " << macro << "_COUNT " << count << " /* elements */\n";
  for (auto [index, extent] : llvm::enumerate(tensor.shape))
    stream << "#define " << macro << "_DIM" << index << " " << extent << "\n";
  return text;
}

namespace {

class HeaderWriter {
public:
  HeaderWriter(const BundlePlan &plan, const BundleOptions &options, const CpuMachine &machine)
      : plan(plan), options(options), machine(machine), upper(llvm::StringRef(options.name).upper()), stream(text) {
    llvm::StringSet<> taken;
    inputs = argumentNames(options.inputs, "input_", taken);
    outputs = argumentNames(options.outputs, "output_", taken);
  }
  std::string write();

private:
  const BundlePlan &plan;
  const BundleOptions &options;
  const CpuMachine &machine;
  const std::string upper;
  std::string text;
  llvm::raw_string_ostream stream;
  std::vector<std::string> inputs, outputs;
};

std::string HeaderWriter::write() {
  const std::string &name = options.name;
  stream << "/* " << commentText(options.model) << " as a C library, made by tilewright.\n"
         << " * Processor: " << llvm::Triple(machine.triple).getArchName() << ", " << machine.cpu << ". Link lib" << name
         << ".a with -lm -lpthread. */\n"
         << "#ifndef " << upper << "_H\n#define " << upper << "_H\n\n#include <stddef.h>\n#include <stdint.h>\n\n"
         << "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n";
  for (auto [spec, argument] : llvm::zip(options.inputs, inputs))
    stream << tensorLines(options.name, "Input", spec, argument);
  for (auto [spec, argument] : llvm::zip(options.outputs, outputs))
    stream << tensorLines(options.name, "Output", spec, argument);
  stream << "\n/* Memory that a run works in. Nothing has to be in it before, and nothing in it is needed after. */\n"
         << "#define " << upper << "_ARENA_BYTES " << plan.arenaBytes << "\n"
         << "#define " << upper << "_ARENA_ALIGNMENT " << bufferAlignment << "\n";
  if (options.separateWeights)
    stream << "\n/* The weights, the bytes of " << name << ".weights.bin. */\n"
           << "#define " << upper << "_WEIGHTS_BYTES " << plan.weights.size() << "\n"
           << "#define " << upper << "_WEIGHTS_ALIGNMENT " << bufferAlignment << "\n";
  stream << "\n/* What functions return. */\nenum {\n"
         << "  " << upper << "_OK = 0,\n"
         << "  " << upper << "_NULL_POINTER = 1, /* an argument other than threads is null */\n"
         << "  " << upper << "_SMALL_ARENA = 2, /* arena_bytes is less than " << upper << "_ARENA_BYTES */\n"
         << "  " << upper << "_MISALIGNED = 3, /* the arena" << (options.separateWeights ? ", the weights" : "")
         << " or a tensor is not aligned: tensors as their elements are */\n"
         << "  " << upper << "_OVERLAP = 4, /* an output or the arena shares memory with another argument */\n";
  if (options.separateWeights)
    stream << "  " << upper << "_NO_WEIGHTS_FILE = 5, /* the file cannot be read: errno says why */\n"
           << "  " << upper
           << "_WRONG_WEIGHTS = 6, /* the file's size or checksum is another than this library was made with */\n";
  if (machine.triple.compare(0, 5, "riscv") == 0)
    stream << "  " << upper << "_SHORT_VECTORS = 7, /* the processor's vectors are shorter than the library was made for */\n";
  stream << "};\n\n"
         << "/* Threads that share the work of a run. `count` includes the thread that calls " << name
         << "_run. Null if there is no\n"
         << " * memory. One run at a time may use them. */\n"
         << "typedef struct " << name << "_threads " << name << "_threads;\n"
         << name << "_threads *" << name << "_threads_create(unsigned count);\n"
         << "void " << name << "_threads_destroy(" << name << "_threads *threads);\n\n";
  if (options.separateWeights)
    stream << "/* Maps the file of weights and checks its size and checksum. Any number of runs may use them at once. */\n"
           << "int " << name << "_load_weights(const char *path, const void **weights);\n"
           << "void " << name << "_unload_weights(const void *weights);\n\n";
  stream << "/* Runs the network. `threads` may be null: then the calling thread does all the work. Runs with different "
            "arenas, outputs\n"
         << " * and threads may happen at once. Results do not depend on the number of threads. */\n"
         << "int " << name << "_run(";
  for (auto [spec, argument] : llvm::zip(options.inputs, inputs))
    stream << "const " << cType(spec.type) << " *" << argument << ", ";
  for (auto [spec, argument] : llvm::zip(options.outputs, outputs))
    stream << cType(spec.type) << " *" << argument << ", ";
  if (options.separateWeights)
    stream << "const void *weights, ";
  stream << "void *arena, size_t arena_bytes, " << name << "_threads *threads);\n\n"
         << "#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
  return text;
}

//===----------------------------------------------------------------------===//
// The object that runs the kernels
//===----------------------------------------------------------------------===//

class EntryBuilder {
public:
  EntryBuilder(llvm::LLVMContext &context, const BundlePlan &plan, const BundleOptions &options, const CpuMachine &machine)
      : context(context), plan(plan), options(options), machine(machine), pointer(llvm::PointerType::get(context, 0)),
        word(llvm::Type::getInt64Ty(context)) {}
  llvm::Expected<std::unique_ptr<llvm::Module>> build();

private:
  llvm::Constant *number(int64_t value) { return llvm::ConstantInt::get(word, static_cast<uint64_t>(value)); }
  llvm::Constant *record(llvm::ArrayRef<llvm::Constant *> fields) { return llvm::ConstantStruct::getAnon(context, fields); }
  /// Fields of a tw_pointer.
  llvm::Constant *pointerRecord(const BundlePlan::Pointer &from) {
    return record({number(from.place), number(from.index), number(from.offset)});
  }
  llvm::Constant *table(llvm::StringRef name, llvm::ArrayRef<llvm::Constant *> rows);
  llvm::Constant *tensors(llvm::StringRef name, llvm::ArrayRef<BundleTensor> tensors, llvm::ArrayRef<int64_t> bytes);
  llvm::GlobalVariable *planRecord();
  void addRun(llvm::Constant *plan);
  void addWeightFunctions(llvm::Constant *plan);
  llvm::Function *addFunction(llvm::Type *result, llvm::ArrayRef<llvm::Type *> arguments, llvm::StringRef suffix);

  llvm::LLVMContext &context;
  const BundlePlan &plan;
  const BundleOptions &options;
  const CpuMachine &machine;
  std::unique_ptr<llvm::Module> module;
  llvm::PointerType *pointer;
  llvm::IntegerType *word;
};

llvm::Constant *EntryBuilder::table(llvm::StringRef name, llvm::ArrayRef<llvm::Constant *> rows) {
  if (rows.empty())
    return llvm::ConstantPointerNull::get(pointer);
  auto *type = llvm::ArrayType::get(rows.front()->getType(), rows.size());
  return new llvm::GlobalVariable(*module, type, /*isConstant=*/true, llvm::GlobalValue::InternalLinkage,
                                  llvm::ConstantArray::get(type, rows), name);
}

llvm::Constant *EntryBuilder::tensors(llvm::StringRef name, llvm::ArrayRef<BundleTensor> tensors,
                                      llvm::ArrayRef<int64_t> bytes) {
  std::vector<llvm::Constant *> rows;
  for (auto [tensor, size] : llvm::zip(tensors, bytes))
    rows.push_back(record({number(size), number(frontend::elementBytes(tensor.type))}));
  return table(name, rows);
}

/// FNV-1a over words of 8 bytes, as BundleRun.c computes it.
uint64_t sumOf(llvm::StringRef bytes) {
  uint64_t sum = 0xcbf29ce484222325u;
  for (size_t at = 0; at < bytes.size(); at += 8)
    sum = (sum ^ llvm::support::endian::read64le(bytes.data() + at)) * 0x100000001b3u;
  return sum;
}

/// The tw_plan of BundleRun.c.
llvm::GlobalVariable *EntryBuilder::planRecord() {
  auto *kernelType = llvm::FunctionType::get(llvm::Type::getVoidTy(context), {pointer, pointer}, false);
  std::vector<llvm::Constant *> pointers, steps, copies;
  for (const BundlePlan::Step &step : plan.steps) {
    auto *kernel = llvm::cast<llvm::Function>(module->getOrInsertFunction(step.symbol, kernelType).getCallee());
    kernel->setVisibility(llvm::GlobalValue::HiddenVisibility);
    steps.push_back(record({kernel, number(static_cast<int64_t>(step.table.size()))}));
    for (const BundlePlan::Pointer &entry : step.table)
      pointers.push_back(pointerRecord(entry));
  }
  for (const BundlePlan::Copy &copy : plan.copies)
    copies.push_back(record({pointerRecord(copy.from), number(copy.output), number(copy.bytes)}));
  llvm::Constant *fields[] = {number(static_cast<int64_t>(options.inputs.size())),
                              number(static_cast<int64_t>(options.outputs.size())),
                              number(static_cast<int64_t>(pointers.size())),
                              number(static_cast<int64_t>(steps.size())),
                              number(static_cast<int64_t>(copies.size())),
                              number(plan.arenaBytes),
                              number(bufferAlignment),
                              number(machine.vectorBits / 8),
                              number(static_cast<int64_t>(plan.weights.size())),
                              number(static_cast<int64_t>(sumOf(plan.weights))),
                              tensors("inputs", options.inputs, plan.inputBytes),
                              tensors("outputs", options.outputs, plan.outputBytes),
                              table("pointers", pointers),
                              table("steps", steps),
                              table("copies", copies)};
  llvm::Constant *value = record(fields);
  return new llvm::GlobalVariable(*module, value->getType(), /*isConstant=*/true, llvm::GlobalValue::InternalLinkage, value,
                                  "plan");
}

llvm::Function *EntryBuilder::addFunction(llvm::Type *result, llvm::ArrayRef<llvm::Type *> arguments, llvm::StringRef suffix) {
  auto *function = llvm::Function::Create(llvm::FunctionType::get(result, arguments, false), llvm::GlobalValue::ExternalLinkage,
                                          options.name + suffix, *module);
  llvm::BasicBlock::Create(context, "", function);
  return function;
}

/// NAME_run: its arguments in arrays, for tw_bundle_run.
void EntryBuilder::addRun(llvm::Constant *planPointer) {
  const size_t inputs = options.inputs.size(), outputs = options.outputs.size();
  std::vector<llvm::Type *> arguments(inputs + outputs + options.separateWeights, pointer);
  arguments.insert(arguments.end(), {pointer, word, pointer});
  llvm::Function *function = addFunction(llvm::Type::getInt32Ty(context), arguments, "_run");
  llvm::IRBuilder<> b(&function->getEntryBlock());
  auto array = [&](size_t first, size_t count) -> llvm::Value * {
    auto *type = llvm::ArrayType::get(pointer, count);
    llvm::Value *memory = b.CreateAlloca(type);
    for (size_t i = 0; i < count; ++i)
      b.CreateStore(function->getArg(static_cast<unsigned>(first + i)), b.CreateConstInBoundsGEP2_64(type, memory, 0, i));
    return memory;
  };
  llvm::Value *from = array(0, inputs), *to = array(inputs, outputs);
  auto next = static_cast<unsigned>(inputs + outputs);
  llvm::Value *weights = llvm::ConstantPointerNull::get(pointer);
  if (options.separateWeights)
    weights = function->getArg(next++);
  else if (!plan.weights.empty())
    weights = module->getNamedGlobal(options.name + "_weights");
  llvm::Function *run = module->getFunction("tw_bundle_run");
  b.CreateRet(b.CreateCall(
      run, {planPointer, from, to, weights, function->getArg(next), function->getArg(next + 1), function->getArg(next + 2)}));
}

void EntryBuilder::addWeightFunctions(llvm::Constant *planPointer) {
  llvm::Function *load = addFunction(llvm::Type::getInt32Ty(context), {pointer, pointer}, "_load_weights");
  llvm::IRBuilder<> b(&load->getEntryBlock());
  b.CreateRet(b.CreateCall(module->getFunction("tw_bundle_load_weights"), {planPointer, load->getArg(0), load->getArg(1)}));
  llvm::Function *unload = addFunction(b.getVoidTy(), {pointer}, "_unload_weights");
  b.SetInsertPoint(&unload->getEntryBlock());
  b.CreateCall(module->getFunction("tw_bundle_unload_weights"), {planPointer, unload->getArg(0)});
  b.CreateRetVoid();
}

llvm::Expected<std::unique_ptr<llvm::Module>> EntryBuilder::build() {
  llvm::StringRef bitcode = bundleRuntime(llvm::Triple(machine.triple).getArchName());
  auto parsed = llvm::parseBitcodeFile(llvm::MemoryBufferRef(bitcode, "runtime"), context);
  if (!parsed)
    return parsed.takeError();
  module = std::move(*parsed);
  module->setModuleIdentifier(options.name);
  module->setSourceFileName(options.name);
  // Clang's processor is not the one that was asked for, and its version is not ours to state.
  for (llvm::Function &function : *module)
    for (const char *attribute : {"target-cpu", "target-features", "tune-cpu"})
      function.removeFnAttr(attribute);
  if (llvm::NamedMDNode *ident = module->getNamedMetadata("llvm.ident"))
    module->eraseNamedMetadata(ident);
  for (llvm::Function &function : *module)
    if (!function.isDeclaration())
      function.setLinkage(llvm::GlobalValue::InternalLinkage);
  auto publish = [&](llvm::StringRef symbol, llvm::StringRef suffix) {
    llvm::Function *function = module->getFunction(symbol);
    function->setLinkage(llvm::GlobalValue::ExternalLinkage);
    function->setName(options.name + suffix);
  };
  publish("tw_team_create", "_threads_create");
  publish("tw_team_destroy", "_threads_destroy");
  if (!options.separateWeights && !plan.weights.empty()) {
    auto *weights =
        new llvm::GlobalVariable(*module, llvm::ArrayType::get(llvm::Type::getInt8Ty(context), plan.weights.size()),
                                 /*isConstant=*/true, llvm::GlobalValue::ExternalLinkage, nullptr, options.name + "_weights");
    weights->setVisibility(llvm::GlobalValue::HiddenVisibility);
    weights->setAlignment(llvm::Align(bufferAlignment));
  }
  llvm::GlobalVariable *record = planRecord();
  addRun(record);
  if (options.separateWeights)
    addWeightFunctions(record);
  return std::move(module);
}

/// The weights as a module of data.
std::unique_ptr<llvm::Module> weightsModule(llvm::LLVMContext &context, const BundlePlan &plan, const BundleOptions &options) {
  auto module = std::make_unique<llvm::Module>(options.name + ".weights", context);
  llvm::Constant *bytes = llvm::ConstantDataArray::getRaw(plan.weights, plan.weights.size(), llvm::Type::getInt8Ty(context));
  auto *weights = new llvm::GlobalVariable(*module, bytes->getType(), /*isConstant=*/true, llvm::GlobalValue::ExternalLinkage,
                                           bytes, options.name + "_weights");
  weights->setVisibility(llvm::GlobalValue::HiddenVisibility);
  weights->setAlignment(llvm::Align(bufferAlignment));
  return module;
}

llvm::Expected<std::string> archive(llvm::ArrayRef<std::pair<std::string, std::unique_ptr<llvm::MemoryBuffer>>> objects) {
  std::vector<llvm::NewArchiveMember> members;
  for (const auto &[name, object] : objects) {
    members.emplace_back(llvm::MemoryBufferRef(object->getBuffer(), name));
    members.back().MemberName = name;
  }
  auto library = llvm::writeArchiveToBuffer(members, llvm::SymtabWritingMode::NormalSymtab, llvm::object::Archive::K_GNU,
                                            /*Deterministic=*/true, /*Thin=*/false);
  if (!library)
    return library.takeError();
  return (*library)->getBuffer().str();
}

} // namespace

std::string cIdentifier(const std::string &name) { return identifier(name, "net_"); }

llvm::Expected<Bundle> writeBundle(BundlePlan plan,
                                   std::vector<std::pair<std::string, std::unique_ptr<llvm::MemoryBuffer>>> kernels,
                                   const BundleOptions &options, const CpuMachine &machine, unsigned optLevel) {
  // The arena begins with the pointers of all tables.
  int64_t pointers = 0;
  for (const BundlePlan::Step &step : plan.steps)
    pointers += static_cast<int64_t>(step.table.size());
  const auto tableBytes = static_cast<int64_t>(llvm::alignTo(static_cast<uint64_t>(pointers) * 8, bufferAlignment));
  auto moveBehindTable = [&](BundlePlan::Pointer &entry) { entry.offset += entry.place == BundlePlan::Arena ? tableBytes : 0; };
  for (BundlePlan::Step &step : plan.steps)
    llvm::for_each(step.table, moveBehindTable);
  for (BundlePlan::Copy &copy : plan.copies)
    moveBehindTable(copy.from);
  plan.arenaBytes += tableBytes;
  plan.weights.resize(llvm::alignTo(plan.weights.size(), bufferAlignment));
  constexpr size_t mostInside = size_t(1) << 30;
  if (!options.separateWeights && plan.weights.size() > mostInside)
    return failure("the weights have " + llvm::Twine(plan.weights.size()) + " bytes, but a library may hold " +
                   llvm::Twine(mostInside) + ": write them to a file of their own");

  llvm::LLVMContext context;
  auto entry = EntryBuilder(context, plan, options, machine).build();
  if (!entry)
    return entry.takeError();
  if (llvm::verifyModule(**entry, &llvm::errs()))
    return failure("internal error: the entry point of a bundle is not valid LLVM IR");
  if (llvm::Error error = optimiseFor(**entry, machine, optLevel))
    return std::move(error);
  const bool holdsWeights = !options.separateWeights && !plan.weights.empty();
  Bundle bundle;
  if (!options.text) {
    auto addObject = [&](llvm::Module &module) -> llvm::Error {
      auto object = emitCode(module, machine, optLevel, llvm::CodeGenFileType::ObjectFile);
      if (!object)
        return object.takeError();
      kernels.emplace_back(module.getModuleIdentifier() + ".o", std::move(*object));
      return llvm::Error::success();
    };
    if (llvm::Error error = addObject(**entry))
      return std::move(error);
    if (holdsWeights) {
      std::unique_ptr<llvm::Module> weights = weightsModule(context, plan, options);
      if (llvm::Error error = optimiseFor(*weights, machine, /*optLevel=*/0))
        return std::move(error);
      if (llvm::Error error = addObject(*weights))
        return std::move(error);
    }
    llvm::Expected<std::string> library = archive(kernels);
    if (!library)
      return library.takeError();
    bundle.library = std::move(*library);
  } else {
    llvm::Linker linker(**entry);
    for (auto &[name, bitcode] : kernels) {
      auto kernel = llvm::parseBitcodeFile(bitcode->getMemBufferRef(), context);
      if (!kernel)
        return kernel.takeError();
      if (linker.linkInModule(std::move(*kernel)))
        return failure("internal error: kernel '" + name + "' does not link");
    }
    if (*options.text == BundleText::Object && holdsWeights) {
      std::unique_ptr<llvm::Module> weights = weightsModule(context, plan, options);
      if (llvm::Error error = optimiseFor(*weights, machine, /*optLevel=*/0))
        return std::move(error);
      if (linker.linkInModule(std::move(weights)))
        return failure("internal error: the weights do not link");
    }
    if (*options.text == BundleText::Llvm) {
      llvm::raw_string_ostream stream(bundle.library);
      (*entry)->print(stream, nullptr);
    } else {
      auto code = emitCode(**entry, machine, optLevel,
                           *options.text == BundleText::Object ? llvm::CodeGenFileType::ObjectFile
                                                               : llvm::CodeGenFileType::AssemblyFile);
      if (!code)
        return code.takeError();
      bundle.library = (*code)->getBuffer().str();
    }
  }
  bundle.header = HeaderWriter(plan, options, machine).write();
  if (options.separateWeights)
    bundle.weights = std::move(plan.weights);
  return bundle;
}

} // namespace tw::cpu
