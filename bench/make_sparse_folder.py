#!/usr/bin/python3
"""Write a Hugging Face folder with the released 48B model's widths and any number of layers, as sparse files of zeros.

Takes no room on the disk but its size is real: for measuring the memory and speed of `kda convert`.

    make_sparse_folder.py FOLDER [--layers 3] [--shards 4]

Every fourth layer and the last are MLA, the rest KDA; layer 0 has a dense FFN. A layer of experts has 3.6 GB, the rest
of a 3-layer model 1.8 GB. Needs only Python.
"""
import argparse
import base64
import json
import os
import struct

D, HEADS, KDA_DIM, TAPS = 2304, 32, 128, 4
LORA, NOPE, ROPE, VALUE = 512, 128, 64, 128
FF, FF_EXPERT, EXPERTS, VOCAB = 9216, 1024, 256, 163840
WIDTH = HEADS * KDA_DIM


def tensors(n_layers, mla):
    """(name, dtype, shape) of every tensor."""
    yield "model.embed_tokens.weight", "BF16", [VOCAB, D]
    yield "model.norm.weight", "BF16", [D]
    yield "lm_head.weight", "BF16", [VOCAB, D]
    for n in range(n_layers):
        layer = f"model.layers.{n}."
        yield layer + "input_layernorm.weight", "BF16", [D]
        yield layer + "post_attention_layernorm.weight", "BF16", [D]
        a = layer + "self_attn."
        if n in mla:
            yield a + "q_proj.weight", "BF16", [HEADS * (NOPE + ROPE), D]
            yield a + "kv_a_proj_with_mqa.weight", "BF16", [LORA + ROPE, D]
            yield a + "kv_a_layernorm.weight", "BF16", [LORA]
            yield a + "kv_b_proj.weight", "BF16", [HEADS * (NOPE + VALUE), LORA]
            yield a + "o_proj.weight", "BF16", [D, HEADS * VALUE]
        else:
            for x in "qkv":
                yield f"{a}{x}_proj.weight", "BF16", [WIDTH, D]
                yield f"{a}{x}_conv1d.weight", "BF16", [WIDTH, 1, TAPS]
            for x in "fg":
                yield f"{a}{x}_a_proj.weight", "BF16", [KDA_DIM, D]
                yield f"{a}{x}_b_proj.weight", "BF16", [WIDTH, KDA_DIM]
            yield a + "b_proj.weight", "BF16", [HEADS, D]
            yield a + "A_log", "F32", [1, 1, HEADS, 1]
            yield a + "dt_bias", "F32", [WIDTH]
            yield a + "o_norm.weight", "BF16", [KDA_DIM]
            yield a + "o_proj.weight", "BF16", [D, WIDTH]
        if n == 0:
            for x, shape in (("gate", [FF, D]), ("up", [FF, D]), ("down", [D, FF])):
                yield f"{layer}mlp.{x}_proj.weight", "BF16", shape
            continue
        moe = layer + "block_sparse_moe."
        yield moe + "gate.weight", "BF16", [EXPERTS, D]
        yield moe + "gate.e_score_correction_bias", "BF16", [EXPERTS]
        for e in range(EXPERTS):
            yield f"{moe}experts.{e}.w1.weight", "BF16", [FF_EXPERT, D]
            yield f"{moe}experts.{e}.w2.weight", "BF16", [D, FF_EXPERT]
            yield f"{moe}experts.{e}.w3.weight", "BF16", [FF_EXPERT, D]
        for x, shape in (("gate", [FF_EXPERT, D]), ("up", [FF_EXPERT, D]), ("down", [D, FF_EXPERT])):
            yield f"{moe}shared_experts.{x}_proj.weight", "BF16", shape


def size_of(dtype, shape):
    n = 4 if dtype == "F32" else 2
    for d in shape:
        n *= d
    return n


def write_shard(path, entries):
    header, at = {}, 0
    for name, dtype, shape in entries:
        size = size_of(dtype, shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + at)
    return at


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--shards", type=int, default=4)
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)

    mla = {n for n in range(args.layers) if n % 4 == 3} | {args.layers - 1}
    every = list(tensors(args.layers, mla))
    share = sum(size_of(d, s) for _, d, s in every) / args.shards
    shards, filled = [[]], 0
    for entry in every:
        if filled >= share * len(shards):
            shards.append([])
        shards[-1].append(entry)
        filled += size_of(*entry[1:])
    weight_map, total = {}, 0
    for i, entries in enumerate(shards, 1):
        name = f"model-{i:05d}-of-{len(shards):05d}.safetensors"
        total += write_shard(os.path.join(args.folder, name), entries)
        weight_map.update({entry[0]: name for entry in entries})

    def put(name, value):
        with open(os.path.join(args.folder, name), "w") as f:
            json.dump(value, f, indent=1)
    put("model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": weight_map})
    put("config.json", {
        "architectures": ["KimiLinearForCausalLM"], "model_type": "kimi_linear", "vocab_size": VOCAB, "hidden_size": D,
        "intermediate_size": FF, "num_hidden_layers": args.layers, "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS, "head_dim": 72, "q_lora_rank": None, "kv_lora_rank": LORA,
        "qk_nope_head_dim": NOPE, "qk_rope_head_dim": ROPE, "v_head_dim": VALUE, "mla_use_nope": True,
        "linear_attn_config": {
            "full_attn_layers": sorted(n + 1 for n in mla),
            "kda_layers": [n + 1 for n in range(args.layers) if n not in mla],
            "num_heads": HEADS, "head_dim": KDA_DIM, "short_conv_kernel_size": TAPS},
        "num_experts": EXPERTS, "num_experts_per_token": 8, "num_shared_experts": 1, "moe_intermediate_size": FF_EXPERT,
        "first_k_dense_replace": 1, "moe_layer_freq": 1, "moe_renormalize": True,
        "moe_router_activation_func": "sigmoid", "num_expert_group": 1, "topk_group": 1, "use_grouped_topk": True,
        "routed_scaling_factor": 2.446, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False,
        "model_max_length": 1048576, "rope_theta": 10000.0})
    with open(os.path.join(args.folder, "tiktoken.model"), "w") as f:
        for byte in range(256):
            f.write(f"{base64.b64encode(bytes([byte])).decode()} {byte}\n")
    print(f"{args.folder}: {len(every)} tensors, {total:,} bytes")


if __name__ == "__main__":
    main()
