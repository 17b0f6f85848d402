//===- core.cpp - The Python module tilewright._core ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// libtilewright's C interface as Python classes; tilewright/__init__.py has the
// names that users see.
//===----------------------------------------------------------------------===//
#include "runtime/capi/tilewright.h"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace py = pybind11;

namespace {

/// A call that failed. Becomes the exception that `tilewright` has set for its status.
struct Failure {
  tw_status status;
  std::string message;
};

void check(tw_status status) {
  if (status != TW_OK)
    throw Failure{status, tw_error_message()};
}

/// Calls a function of the library without Python's lock.
template <typename Call> void callUnlocked(Call call) {
  py::gil_scoped_release unlocked;
  check(call());
}

/// The text that a function returns.
template <typename Call> std::string textOf(Call call) {
  char *text = nullptr;
  callUnlocked([&] { return call(&text); });
  std::string result(text);
  tw_free(text);
  return result;
}

/// The bytes that a function returns.
template <typename Call> py::bytes bytesOf(Call call) {
  void *bytes = nullptr;
  size_t size = 0;
  callUnlocked([&] { return call(&bytes, &size); });
  py::bytes result(static_cast<const char *>(bytes), size);
  tw_free(bytes);
  return result;
}

std::vector<const char *> pointersTo(const std::vector<std::string> &texts) {
  std::vector<const char *> pointers;
  for (const std::string &text : texts)
    pointers.push_back(text.c_str());
  return pointers;
}

struct MachineFree {
  void operator()(tw_machine *machine) const { tw_machine_free(machine); }
};
struct ModelFree {
  void operator()(tw_model *model) const { tw_model_free(model); }
};
struct ProgramFree {
  void operator()(tw_program *program) const { tw_program_free(program); }
};
struct ResultFree {
  void operator()(tw_result *result) const { tw_result_free(result); }
};
template <typename T, typename Free> struct Handle { std::unique_ptr<T, Free> held; };
using Machine = Handle<tw_machine, MachineFree>;
using Model = Handle<tw_model, ModelFree>;
using Program = Handle<tw_program, ProgramFree>;
using Result = Handle<tw_result, ResultFree>;

/// NumPy's names by tw_type; bfloat16, which NumPy does not have, as its bits.
constexpr const char *kDtypes[] = {"float32", "float16", "uint16", "float64", "int8",   "uint8", "int16",
                                   "uint16",  "int32",   "uint32", "int64",   "uint64", "bool"};
constexpr const char *kNames[] = {"float32", "float16", "bfloat16", "float64", "int8",   "uint8", "int16",
                                  "uint16",  "int32",   "uint32",   "int64",   "uint64", "bool"};

std::vector<py::ssize_t> shapeOf(const tw_tensor &tensor) { return {tensor.shape, tensor.shape + tensor.rank}; }

py::tuple specOf(const tw_tensor &tensor) {
  return py::make_tuple(tensor.name, kNames[tensor.type], py::tuple(py::cast(shapeOf(tensor))));
}

/// `array` as a tensor; it must outlive the tensor. `shape` holds the extents.
tw_tensor tensorOf(const std::string &name, const std::string &type, const py::array &array, std::vector<int64_t> &shape) {
  tw_tensor tensor{};
  tensor.name = name.c_str();
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (type == kNames[i])
      tensor.type = tw_type(i);
  shape.assign(array.shape(), array.shape() + array.ndim());
  tensor.shape = shape.data();
  tensor.rank = shape.size();
  tensor.data = array.data();
  tensor.size = size_t(array.nbytes());
  return tensor;
}

Result run(const Program &program, const std::optional<std::vector<std::tuple<std::string, std::string, py::array>>> &inputs,
           const std::vector<std::string> &options) {
  std::vector<tw_tensor> tensors;
  std::vector<std::vector<int64_t>> shapes(inputs ? inputs->size() : 0);
  for (size_t i = 0; i < shapes.size(); ++i) {
    const auto &[name, type, array] = (*inputs)[i];
    tensors.push_back(tensorOf(name, type, array, shapes[i]));
  }
  const std::vector<const char *> pointers = pointersTo(options);
  static const tw_tensor kNone{};
  tw_result *result = nullptr;
  callUnlocked([&] {
    const tw_tensor *data = !inputs ? nullptr : tensors.empty() ? &kNone : tensors.data();
    return tw_run(program.held.get(), data, tensors.size(), pointers.data(), pointers.size(), &result);
  });
  return {std::unique_ptr<tw_result, ResultFree>(result)};
}

} // namespace

PYBIND11_MODULE(_core, module) {
  module.doc() = "libtilewright's C interface";
  static py::object raise;
  module.def("set_raise", [](py::object function) { raise = std::move(function); });
  py::register_exception_translator([](std::exception_ptr error) {
    try {
      if (error)
        std::rethrow_exception(error);
    } catch (const Failure &failure) {
      try {
        raise(int(failure.status), py::str(failure.message));
      } catch (py::error_already_set &python) {
        python.restore();
      }
    }
  });

  module.def("version", [] { return std::string(tw_version()); });
  module.def("machine_names", [] { return textOf([](char **text) { return tw_machine_names(text); }); });

  py::class_<Machine>(module, "Machine")
      .def_static("load",
                  [](const std::string &file, const std::vector<std::string> &overrides) {
                    const std::vector<const char *> pointers = pointersTo(overrides);
                    tw_machine *machine = nullptr;
                    callUnlocked([&] { return tw_machine_load(file.c_str(), pointers.data(), pointers.size(), &machine); });
                    return Machine{std::unique_ptr<tw_machine, MachineFree>(machine)};
                  })
      .def("with_overrides",
           [](const Machine &self, const std::vector<std::string> &overrides) {
             const std::vector<const char *> pointers = pointersTo(overrides);
             tw_machine *machine = nullptr;
             callUnlocked([&] { return tw_machine_with(self.held.get(), pointers.data(), pointers.size(), &machine); });
             return Machine{std::unique_ptr<tw_machine, MachineFree>(machine)};
           })
      .def(
          "parameters",
          [](const Machine &self) { return textOf([&](char **text) { return tw_machine_parameters(self.held.get(), text); }); })
      .def("notes",
           [](const Machine &self) { return textOf([&](char **text) { return tw_machine_notes(self.held.get(), text); }); });

  py::class_<Model>(module, "Model")
      .def_static("load",
                  [](const std::string &file) {
                    tw_model *model = nullptr;
                    callUnlocked([&] { return tw_model_load(file.c_str(), &model); });
                    return Model{std::unique_ptr<tw_model, ModelFree>(model)};
                  })
      .def_static("from_onnx", [](const py::bytes &bytes, const std::string &name) {
        char *data = nullptr;
        py::ssize_t size = 0;
        PyBytes_AsStringAndSize(bytes.ptr(), &data, &size);
        tw_model *model = nullptr;
        callUnlocked([&] { return tw_model_from_onnx(data, size_t(size), name.c_str(), &model); });
        return Model{std::unique_ptr<tw_model, ModelFree>(model)};
      });

  module.def("compile", [](const Model &model, const Machine &machine, const std::vector<std::string> &options) {
    const std::vector<const char *> pointers = pointersTo(options);
    tw_program *program = nullptr;
    callUnlocked([&] { return tw_compile(model.held.get(), machine.held.get(), pointers.data(), pointers.size(), &program); });
    return Program{std::unique_ptr<tw_program, ProgramFree>(program)};
  });

  py::class_<Program>(module, "Program")
      .def_static("load",
                  [](const std::string &file, const Machine *machine) {
                    tw_program *program = nullptr;
                    callUnlocked(
                        [&] { return tw_program_load(file.c_str(), machine ? machine->held.get() : nullptr, &program); });
                    return Program{std::unique_ptr<tw_program, ProgramFree>(program)};
                  })
      .def("inputs",
           [](const Program &self) {
             py::list specs;
             for (size_t i = 0; i < tw_program_input_count(self.held.get()); ++i)
               specs.append(specOf(tw_program_input(self.held.get(), i)));
             return specs;
           })
      .def("outputs",
           [](const Program &self) {
             py::list specs;
             for (size_t i = 0; i < tw_program_output_count(self.held.get()); ++i)
               specs.append(specOf(tw_program_output(self.held.get(), i)));
             return specs;
           })
      .def("text",
           [](const Program &self, const std::string &phase) {
             return textOf([&](char **text) { return tw_program_text(self.held.get(), phase.c_str(), text); });
           })
      .def("notes",
           [](const Program &self) { return textOf([&](char **text) { return tw_program_notes(self.held.get(), text); }); })
      .def("image",
           [](const Program &self) {
             return bytesOf([&](void **bytes, size_t *size) { return tw_program_image(self.held.get(), bytes, size); });
           })
      .def("run", &run);

  py::class_<Result>(module, "Result")
      .def("outputs",
           [](const py::object &self) {
             const Result &result = self.cast<const Result &>();
             py::list outputs;
             for (size_t i = 0; i < tw_result_output_count(result.held.get()); ++i) {
               const tw_tensor tensor = tw_result_output(result.held.get(), i);
               // The result owns the bytes: the array keeps it alive.
               py::array array(py::dtype(kDtypes[tensor.type]), shapeOf(tensor), tensor.data, self);
               array.attr("flags").attr("writeable") = false;
               outputs.append(py::make_tuple(tensor.name, kNames[tensor.type], array));
             }
             return outputs;
           })
      .def("report",
           [](const Result &self) { return textOf([&](char **text) { return tw_result_report(self.held.get(), text); }); })
      .def("timeline",
           [](const Result &self) { return textOf([&](char **text) { return tw_result_timeline(self.held.get(), text); }); })
      .def("perfetto", [](const Result &self) {
        return bytesOf([&](void **bytes, size_t *size) { return tw_result_perfetto(self.held.get(), bytes, size); });
      });
}
