//===- NoPlugin.cpp - A library that is no plug-in -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
extern "C" int nothing() { return 0; }
