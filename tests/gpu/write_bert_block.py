#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a small form of the BERT block that benches run: write_bert_block.py SCRIPTS MODEL.onnx"""
import pathlib
import sys

sys.path.insert(0, sys.argv[1])
import networks  # noqa: E402

graph = networks.Graph("bert_block", seed=1, batch=2, kind=networks.BFLOAT16)
networks.bert_block(graph, sequence=70, hidden=64, heads=2, inner=96)
pathlib.Path(sys.argv[2]).write_bytes(graph.model())
