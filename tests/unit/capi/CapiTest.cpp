//===- CapiTest.cpp - libtilewright through its C interface ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Linked with the shared library alone.
//===----------------------------------------------------------------------===//
#include "runtime/capi/tilewright.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Text {
  char *text = nullptr;
  ~Text() { tw_free(text); }
};

class CapiTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(tw_machine_load("tiny_8x8", nullptr, 0, &machine), TW_OK) << tw_error_message();
    ASSERT_EQ(tw_model_load("gemm:16x24x8:int8", &model), TW_OK) << tw_error_message();
    ASSERT_EQ(tw_compile(model, machine, nullptr, 0, &program), TW_OK) << tw_error_message();
  }
  void TearDown() override {
    tw_program_free(program);
    tw_model_free(model);
    tw_machine_free(machine);
  }
  tw_machine *machine = nullptr;
  tw_model *model = nullptr;
  tw_program *program = nullptr;
};

} // namespace

TEST_F(CapiTest, outputsAreThoseOfTheFunctionalModel) {
  const char *functional[] = {"model=functional"};
  tw_result *timed = nullptr, *values = nullptr;
  ASSERT_EQ(tw_run(program, nullptr, 0, nullptr, 0, &timed), TW_OK) << tw_error_message();
  ASSERT_EQ(tw_run(program, nullptr, 0, functional, 1, &values), TW_OK) << tw_error_message();
  ASSERT_EQ(tw_result_output_count(timed), tw_program_output_count(program));
  for (size_t i = 0; i < tw_result_output_count(timed); ++i) {
    const tw_tensor a = tw_result_output(timed, i), b = tw_result_output(values, i);
    ASSERT_EQ(a.size, b.size);
    EXPECT_EQ(std::memcmp(a.data, b.data, a.size), 0);
  }
  tw_result_free(timed);
  tw_result_free(values);
}

TEST_F(CapiTest, anInputOfTheWrongSizeIsRefused) {
  tw_tensor input = tw_program_input(program, 0);
  const std::vector<uint8_t> bytes(8);
  input.data = bytes.data();
  input.size = bytes.size();
  tw_result *result = nullptr;
  EXPECT_EQ(tw_run(program, &input, 1, nullptr, 0, &result), TW_USER_ERROR);
  EXPECT_NE(std::string(tw_error_message()).find("has 8 bytes but its shape and type need 128"), std::string::npos)
      << tw_error_message();
  EXPECT_EQ(result, nullptr);
}

TEST_F(CapiTest, anUnknownOptionNamesTheKnownOnes) {
  const char *options[] = {"schedul=serial"};
  tw_program *other = nullptr;
  EXPECT_EQ(tw_compile(model, machine, options, 1, &other), TW_USER_ERROR);
  EXPECT_EQ(std::string(tw_error_message()).rfind("unknown option 'schedul', expected one of schedule, ", 0), 0u)
      << tw_error_message();
}

TEST_F(CapiTest, anOutputLiesAtThePlaceOfAnInput) {
  const std::string path = testing::TempDir() + "capi_state.mlir";
  FILE *file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fputs("func.func @main(%x: tensor<4x16xf32> {graph.name = \"x\"}, %old: tensor<4x16xf32> {graph.name = \"old\"})\n"
             "    -> (tensor<4x16xf32> {graph.name = \"new\"}) {\n"
             "  %0 = graph.relu %x : tensor<4x16xf32>\n"
             "  return %0 : tensor<4x16xf32>\n"
             "}\n",
             file);
  std::fclose(file);
  tw_model *state = nullptr;
  ASSERT_EQ(tw_model_load(path.c_str(), &state), TW_OK) << tw_error_message();
  auto placesOf = [&](const char *const *options, size_t count) {
    tw_program *compiled = nullptr;
    EXPECT_EQ(tw_compile(state, machine, options, count, &compiled), TW_OK) << tw_error_message();
    Text isa;
    EXPECT_EQ(tw_program_text(compiled, "isa", &isa.text), TW_OK) << tw_error_message();
    tw_program_free(compiled);
    std::vector<std::string> places;
    for (const char *name : {".input \"old\"", ".output \"new\""}) {
      const std::string text = isa.text,
                        line = text.substr(text.find(name), text.find('\n', text.find(name)) - text.find(name));
      places.push_back(line.substr(line.rfind(' ')));
    }
    return places;
  };
  const char *alias[] = {"alias.new=old"}, *unknown[] = {"alias.new=older"};
  const std::vector<std::string> apart = placesOf(nullptr, 0), together = placesOf(alias, 1);
  EXPECT_NE(apart[0], apart[1]);
  EXPECT_EQ(together[0], together[1]);
  tw_program *none = nullptr;
  EXPECT_EQ(tw_compile(state, machine, unknown, 1, &none), TW_USER_ERROR);
  EXPECT_NE(std::string(tw_error_message()).find("an alias names input 'older', but the network has only 'x', 'old'"),
            std::string::npos)
      << tw_error_message();
  tw_model_free(state);
}

TEST_F(CapiTest, errorsBelongToTheirThread) {
  tw_model *none = nullptr;
  ASSERT_EQ(tw_model_load("nothing.onnx", &none), TW_USER_ERROR);
  std::thread([] { EXPECT_STREQ(tw_error_message(), ""); }).join();
  EXPECT_NE(std::string(tw_error_message()).find("nothing.onnx"), std::string::npos);
}

TEST_F(CapiTest, aFaultOfTheProgramIsNoUserError) {
  const char *options[] = {"max_cycles=5"};
  tw_result *result = nullptr;
  EXPECT_EQ(tw_run(program, nullptr, 0, options, 1, &result), TW_FAULT);
}

TEST_F(CapiTest, parametersMakeTheMachineAgain) {
  Text first, second;
  ASSERT_EQ(tw_machine_parameters(machine, &first.text), TW_OK);
  std::vector<std::string> lines;
  for (std::string rest = first.text; !rest.empty(); rest.erase(0, rest.find('\n') + 1))
    lines.push_back(rest.substr(0, rest.find('\n')));
  std::vector<const char *> overrides;
  for (const std::string &line : lines)
    overrides.push_back(line.c_str());
  tw_machine *again = nullptr;
  ASSERT_EQ(tw_machine_with(machine, overrides.data(), overrides.size(), &again), TW_OK) << tw_error_message();
  ASSERT_EQ(tw_machine_parameters(again, &second.text), TW_OK);
  EXPECT_STREQ(first.text, second.text);
  tw_machine_free(again);
}

TEST_F(CapiTest, theImageOfAProgramLoadsAsAProgram) {
  void *image = nullptr;
  size_t size = 0;
  ASSERT_EQ(tw_program_image(program, &image, &size), TW_OK) << tw_error_message();
  const std::string path = testing::TempDir() + "capi_test.twp";
  FILE *file = std::fopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(std::fwrite(image, 1, size, file), size);
  std::fclose(file);
  tw_free(image);
  tw_program *loaded = nullptr;
  ASSERT_EQ(tw_program_load(path.c_str(), nullptr, &loaded), TW_OK) << tw_error_message();
  Text isa, own;
  ASSERT_EQ(tw_program_text(loaded, "isa", &isa.text), TW_OK);
  ASSERT_EQ(tw_program_text(program, "isa", &own.text), TW_OK);
  EXPECT_STREQ(isa.text, own.text);
  Text rules;
  EXPECT_EQ(tw_program_text(loaded, "rules", &rules.text), TW_USER_ERROR);
  EXPECT_NE(std::string(tw_error_message()).find("was loaded as a program: no rule was applied"), std::string::npos);
  tw_program_free(loaded);
}

TEST_F(CapiTest, rulesAreSwitchedAndExplained) {
  const std::string path = testing::TempDir() + "capi_test.mlir";
  FILE *file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fputs(R"(func.func @main(%a: tensor<8x16xi8>) -> tensor<8x16xi8> {
  %t = graph.transpose %a {perm = array<i64: 1, 0>} : (tensor<8x16xi8>) -> tensor<16x8xi8>
  %u = graph.transpose %t {perm = array<i64: 1, 0>} : (tensor<16x8xi8>) -> tensor<8x16xi8> loc("second")
  %v = graph.relu %u : tensor<8x16xi8>
  return %v : tensor<8x16xi8>
})",
             file);
  std::fclose(file);
  tw_model *transposes = nullptr;
  ASSERT_EQ(tw_model_load(path.c_str(), &transposes), TW_OK) << tw_error_message();
  auto rulesWith = [&](std::vector<const char *> options) -> std::string {
    tw_program *compiled = nullptr;
    if (tw_compile(transposes, machine, options.data(), options.size(), &compiled) != TW_OK)
      return tw_error_message();
    Text rules;
    EXPECT_EQ(tw_program_text(compiled, "rules", &rules.text), TW_OK) << tw_error_message();
    tw_program_free(compiled);
    return rules.text;
  };
  EXPECT_EQ(rulesWith({}).rfind(R"({"rule":"transpose-of-transpose","class":"bit-exact","nodes":["second"],"before":)", 0), 0u)
      << rulesWith({});
  EXPECT_EQ(rulesWith({"rules=none"}), "");
  EXPECT_EQ(rulesWith({"disable_rule=neg-of-neg", "disable_rule=transpose-of-transpose"}), "");
  EXPECT_EQ(rulesWith({"rules=some"}), "option rules is 'some' but must be one of none, bit-exact, real, all");
  EXPECT_EQ(rulesWith({"disable_rule=factor-in"}),
            "option disable_rule is 'factor-in', which is no rule; 'tilewright rules' lists them");
  EXPECT_EQ(rulesWith({"disable_rule=dead-code"}),
            "option disable_rule is 'dead-code', which is always applied; 'tilewright rules' says which are not");
  tw_model_free(transposes);
}
