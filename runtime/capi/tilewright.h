/*===- tilewright.h - The C interface of libtilewright -------------*- C -*-===*\
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                     *|
|*                                                                             *|
|* Machines, models, programs and results are opaque handles, each owned by    *|
|* the caller until its tw_*_free(). Every function that can fail returns a    *|
|* tw_status; tw_error_message() then says what was found and what is allowed. *|
|* Any thread may call any function; one handle may be used by several threads *|
|* at a time. Simulations of one process run one after the other.              *|
\*===-----------------------------------------------------------------------===*/
#ifndef TILEWRIGHT_H
#define TILEWRIGHT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TILEWRIGHT_API __attribute__((visibility("default")))

/* Whose mistake it was. The values are the exit codes of the command line. */
typedef enum tw_status {
  TW_OK = 0,
  TW_USER_ERROR = 1,    /* a bad model, machine, tensor or option */
  TW_FAULT = 2,         /* the simulated program misbehaved */
  TW_INTERNAL_ERROR = 3 /* a mistake of Tilewright */
} tw_status;

typedef struct tw_machine tw_machine;
typedef struct tw_model tw_model;
typedef struct tw_program tw_program;
typedef struct tw_result tw_result;

typedef enum tw_type {
  TW_FLOAT32,
  TW_FLOAT16,
  TW_BFLOAT16,
  TW_FLOAT64,
  TW_INT8,
  TW_UINT8,
  TW_INT16,
  TW_UINT16,
  TW_INT32,
  TW_UINT32,
  TW_INT64,
  TW_UINT64,
  TW_BOOL /* a byte, 0 or 1 */
} tw_type;

/* A dense, row-major tensor. `data` may be null where only name, type and shape are asked for. */
typedef struct tw_tensor {
  const char *name;
  tw_type type;
  const int64_t *shape; /* `rank` extents, outermost first */
  size_t rank;
  const void *data;
  size_t size; /* bytes of `data` */
} tw_tensor;

/* "0.1.0". */
TILEWRIGHT_API const char *tw_version(void);
/* Why the last call of this thread failed; an empty text if none has. Valid until the thread's next call. */
TILEWRIGHT_API const char *tw_error_message(void);
/* Frees a text or image that a function has returned. */
TILEWRIGHT_API void tw_free(void *memory);

/*===- Machines ------------------------------------------------------------===*/

/* The names of the shipped machines, one a line. */
TILEWRIGHT_API tw_status tw_machine_names(char **names);
/* A shipped machine by its name, or a YAML file. Overrides are "key=value", as --set of the command line takes them. */
TILEWRIGHT_API tw_status tw_machine_load(const char *name_or_file, const char *const *overrides, size_t override_count,
                                         tw_machine **machine);
/* The same machine with further overrides. */
TILEWRIGHT_API tw_status tw_machine_with(const tw_machine *machine, const char *const *overrides, size_t override_count,
                                         tw_machine **changed);
/* Every parameter as a line "key=value", in the order of the manual of machine files. */
TILEWRIGHT_API tw_status tw_machine_parameters(const tw_machine *machine, char **parameters);
/* What is legal but unwise about the machine, one note a line. */
TILEWRIGHT_API tw_status tw_machine_notes(const tw_machine *machine, char **notes);
TILEWRIGHT_API void tw_machine_free(tw_machine *machine);

/*===- Models --------------------------------------------------------------===*/

/* An ONNX file, MLIR text (.mlir), or an inline kernel such as "gemm:64x64x64:int8". Files are read when the model is compiled. */
TILEWRIGHT_API tw_status tw_model_load(const char *file_or_kernel, tw_model **model);
/* A serialised ONNX ModelProto, which is copied. `name` stands for the file in messages and reports. Models with external data need a
   file. */
TILEWRIGHT_API tw_status tw_model_from_onnx(const void *bytes, size_t size, const char *name, tw_model **model);
TILEWRIGHT_API void tw_model_free(tw_model *model);

/*===- Programs ------------------------------------------------------------===*/

/* Compiles a model for a machine. Options are "name=value":
     schedule        serial, double_buffer, pipelined (default), search, or a plan file (.mlir)
     across          none, prefetch, all (default)
     priority        program_order, alap, interleaved
     math            strict, exact (default), finite, reassociate, fast
     rules           none, bit-exact, real, all (default): classes of rewriting rules, as far as math allows them (docs/rules.md)
     disable_rule    a rewriting rule that is not applied; may be given several times
     search_budget   programs that schedule search simulates (default 64)
     search_jobs     processes that it simulates in (default 1)
     seed            of the weights of inline kernels, and of the search (default 1)
     cache           folder that keeps what schedule search has measured
     shape.INPUT     extents of an input, "1,3,224,224"
     alias.OUTPUT    the input at whose place the output lies and is updated (docs/decode.md)
     targets         names of targets in order of preference, "accel,cpu" */
TILEWRIGHT_API tw_status tw_compile(const tw_model *model, const tw_machine *machine, const char *const *options,
                                    size_t option_count, tw_program **program);
/* A program that is compiled already: an image (.twp) or assembler text (.tasm). `machine` null: the machine that the file names. */
TILEWRIGHT_API tw_status tw_program_load(const char *file, const tw_machine *machine, tw_program **program);
TILEWRIGHT_API size_t tw_program_input_count(const tw_program *program);
TILEWRIGHT_API size_t tw_program_output_count(const tw_program *program);
/* Name, type and shape. Precondition: `index` is less than the count. What it points to lives as long as the program. */
TILEWRIGHT_API tw_tensor tw_program_input(const tw_program *program, size_t index);
TILEWRIGHT_API tw_tensor tw_program_output(const tw_program *program, size_t index);
/* "plan": the complete plan file; "isa": assembler text; "rules": what rewriting rules did, a JSON object a line (docs/rules.md).
   User errors: a program that was loaded has no plan and no rules; parts that run on the host are no part of one program, but of its
   rules. */
TILEWRIGHT_API tw_status tw_program_text(const tw_program *program, const char *phase, char **text);
/* The image that a .twp file holds. User error: the network is more than one program. */
TILEWRIGHT_API tw_status tw_program_image(const tw_program *program, void **image, size_t *size);
/* What the user should know about the compilation, one note a line. */
TILEWRIGHT_API tw_status tw_program_notes(const tw_program *program, char **notes);
TILEWRIGHT_API void tw_program_free(tw_program *program);

/*===- Runs ----------------------------------------------------------------===*/

/* Simulates the program once. `inputs`: one tensor for each input, in their order, copied during the call; null and 0: random tensors.
   Types and shapes are checked. Options are "name=value":
     model       systemc (default), functional, rtl
     check       1: unwritten words and unordered accesses are faults
     trace       1: keep what a timeline needs (systemc)
     max_cycles  a run that takes more is a fault
     seed        of random inputs (default 1) */
TILEWRIGHT_API tw_status tw_run(const tw_program *program, const tw_tensor *inputs, size_t input_count,
                                const char *const *options, size_t option_count, tw_result **result);
/* Outputs in the program's order. What they point to lives as long as the result. Precondition: `index` is less than the count. */
TILEWRIGHT_API size_t tw_result_output_count(const tw_result *result);
TILEWRIGHT_API tw_tensor tw_result_output(const tw_result *result, size_t index);
/* The document of `tilewright run --json` (docs/reports.md). */
TILEWRIGHT_API tw_status tw_result_report(const tw_result *result, char **json);
/* The timeline as Chrome trace events. User error: the run kept no trace, or was more than one program. */
TILEWRIGHT_API tw_status tw_result_timeline(const tw_result *result, char **json);
/* The timeline in Perfetto's protobuf format, the bytes of a .pftrace file. One cycle is 1 ns. User errors: as tw_result_timeline. */
TILEWRIGHT_API tw_status tw_result_perfetto(const tw_result *result, void **trace, size_t *size);
TILEWRIGHT_API void tw_result_free(tw_result *result);

#ifdef __cplusplus
}
#endif

#endif /* TILEWRIGHT_H */
