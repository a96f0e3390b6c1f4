#!/usr/bin/python3
"""Write small random Kimi Linear checkpoints and their float64 logits.

    make_golden.py OUT_DIR

Each case is a Hugging Face style directory (config.json, model.safetensors) plus
`ids.npy` (int32 [T]) and `logits.npy` (float32 [T, vocab], from the NumPy reference in
reference/). The cases vary every dimension the engine might have hard-wired.
"""
import json
import os
import struct
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "reference"))
import kimi_linear_reference as ref  # noqa: E402

BASE = {
    "architectures": ["KimiLinearForCausalLM"], "model_type": "kimi_linear", "torch_dtype": "bfloat16",
    "vocab_size": 320, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
    "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 128,
    "linear_attn_config": {"full_attn_layers": [4], "kda_layers": [1, 2, 3], "num_heads": 2, "head_dim": 128,
                           "short_conv_kernel_size": 4},
    "q_lora_rank": None, "kv_lora_rank": 256, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "mla_use_nope": True, "num_experts": 8, "num_experts_per_token": 2, "num_shared_experts": 1,
    "moe_intermediate_size": 256, "first_k_dense_replace": 1, "moe_layer_freq": 1, "moe_renormalize": True,
    "moe_router_activation_func": "sigmoid", "num_expert_group": 1, "topk_group": 1, "use_grouped_topk": True,
    "routed_scaling_factor": 2.446, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False,
    "model_max_length": 4096, "bos_token_id": 312, "eos_token_id": 313, "pad_token_id": 313,
}


def variant(lin=None, **kw):
    c = json.loads(json.dumps(BASE))
    c.update(kw)
    c["linear_attn_config"].update(lin or {})
    return c


CASES = {
    # the released model's proportions, small
    "proportions": (variant(num_experts=4), 96, {}),
    # nothing is a power of two; two KDA layers after the full one; tied embeddings; wide conv; no renormalisation
    "odd-shapes": (variant(dict(full_attn_layers=[2], kda_layers=[1, 3, 4], num_heads=3, head_dim=48,
                                short_conv_kernel_size=5),
                           hidden_size=160, intermediate_size=224, num_attention_heads=5, num_key_value_heads=5,
                           kv_lora_rank=72, qk_nope_head_dim=40, qk_rope_head_dim=24, v_head_dim=56, num_experts=6,
                           num_experts_per_token=3, num_shared_experts=2, moe_intermediate_size=96,
                           moe_renormalize=False, tie_word_embeddings=True, vocab_size=333), 70, {}),
    # compressed queries, grouped routing, two leading dense layers
    "q-lora-groups": (variant(dict(full_attn_layers=[1, 3], kda_layers=[2, 4], num_heads=2, head_dim=64), hidden_size=128,
                              intermediate_size=256, q_lora_rank=96, kv_lora_rank=64, qk_nope_head_dim=32,
                              qk_rope_head_dim=16, v_head_dim=32, num_experts=8, num_experts_per_token=2,
                              num_expert_group=4, topk_group=2, first_k_dense_replace=2,
                              moe_intermediate_size=64), 64, {}),
    # decays from none at all to near-total forgetting within one token: what overflows a careless chunked form
    "extreme-gates": (variant(dict(full_attn_layers=[3], kda_layers=[1, 2], num_heads=2, head_dim=64), hidden_size=128,
                              intermediate_size=256, num_hidden_layers=3, kv_lora_rank=64, qk_nope_head_dim=32,
                              qk_rope_head_dim=16, v_head_dim=32, moe_intermediate_size=64), 400,
                      {"a_log": (-6.0, 4.0), "dt_bias": (-12.0, 6.0)}),
}


def weights(c, rng, a_log=(0.0, 2.77), dt_bias=(-6.9, -2.25)):
    D, lin = c["hidden_size"], c["linear_attn_config"]
    w = {}

    def mat(name, o, i, std=None):
        w[name] = rng.standard_normal((o, i)) * (std or i ** -0.5)

    def ones(name, n):
        w[name] = 1 + 0.1 * rng.standard_normal(n)

    def mlp(p, g, d, u, width):
        mat(p + g, width, D)
        mat(p + d, D, width)
        mat(p + u, width, D)

    mat("model.embed_tokens.weight", c["vocab_size"], D, 1.0)
    if not c["tie_word_embeddings"]:
        mat("lm_head.weight", c["vocab_size"], D)
    ones("model.norm.weight", D)
    full = {i - 1 for i in lin["full_attn_layers"]}
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        ones(p + "input_layernorm.weight", D)
        ones(p + "post_attention_layernorm.weight", D)
        a = p + "self_attn."
        if i in full:
            h, N, P, V, R = (c[n] for n in ("num_attention_heads", "qk_nope_head_dim", "qk_rope_head_dim",
                                            "v_head_dim", "kv_lora_rank"))
            if c["q_lora_rank"]:
                mat(a + "q_a_proj.weight", c["q_lora_rank"], D)
                ones(a + "q_a_layernorm.weight", c["q_lora_rank"])
                mat(a + "q_b_proj.weight", h * (N + P), c["q_lora_rank"])
            else:
                mat(a + "q_proj.weight", h * (N + P), D)
            mat(a + "kv_a_proj_with_mqa.weight", R + P, D)
            ones(a + "kv_a_layernorm.weight", R)
            mat(a + "kv_b_proj.weight", h * (N + V), R)
            mat(a + "o_proj.weight", D, h * V)
        else:
            H, K, C = lin["num_heads"], lin["head_dim"], lin["short_conv_kernel_size"]
            for n in "qkv":
                mat(a + f"{n}_proj.weight", H * K, D)
                w[a + f"{n}_conv1d.weight"] = rng.standard_normal((H * K, 1, C)) * 0.5
            w[a + "A_log"] = rng.uniform(*a_log, (1, 1, H, 1))
            w[a + "dt_bias"] = rng.uniform(*dt_bias, H * K)
            mat(a + "f_a_proj.weight", K, D)
            mat(a + "f_b_proj.weight", H * K, K)
            mat(a + "b_proj.weight", H, D)
            mat(a + "g_a_proj.weight", K, D)
            mat(a + "g_b_proj.weight", H * K, K)
            ones(a + "o_norm.weight", K)
            mat(a + "o_proj.weight", D, H * K)
        if i < c["first_k_dense_replace"]:
            mlp(p + "mlp.", "gate_proj.weight", "down_proj.weight", "up_proj.weight", c["intermediate_size"])
        else:
            m = p + "block_sparse_moe."
            mat(m + "gate.weight", c["num_experts"], D)
            w[m + "gate.e_score_correction_bias"] = rng.uniform(-0.2, 0.2, c["num_experts"])
            for e in range(c["num_experts"]):
                mlp(f"{m}experts.{e}.", "w1.weight", "w2.weight", "w3.weight", c["moe_intermediate_size"])
            mlp(m + "shared_experts.", "gate_proj.weight", "down_proj.weight", "up_proj.weight",
                c["moe_intermediate_size"] * c["num_shared_experts"])
    return w


def bf16(a):
    """Round to nearest even, as bits."""
    b = np.ascontiguousarray(a, np.float32).view(np.uint32)
    return ((b + 0x7FFF + ((b >> 16) & 1)) >> 16).astype(np.uint16)


def write_safetensors(path, w, f32=("A_log", "dt_bias", "e_score_correction_bias")):
    """Write {name: array}: byte arrays as U8, names ending as in f32 as F32, the rest as BF16."""
    header, blobs, at = {"__metadata__": {"format": "pt"}}, [], 0
    for name, a in w.items():
        if a.dtype == np.uint8:
            kind, raw = "U8", a.tobytes()
        elif name.endswith(tuple(f32)):
            kind, raw = "F32", a.astype(np.float32).tobytes()
        else:
            kind, raw = "BF16", bf16(a).tobytes()
        header[name] = {"dtype": kind, "shape": list(a.shape), "data_offsets": [at, at + len(raw)]}
        blobs.append(raw)
        at += len(raw)
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + b"".join(blobs))


def write_case(out, name, Model=ref.Model):
    """Write one case into out/name; return the model that computed the logits."""
    c, T, kw = CASES[name]
    rng = np.random.default_rng(list(CASES).index(name))
    d = os.path.join(out, name)
    os.makedirs(d, exist_ok=True)
    with open(os.path.join(d, "config.json"), "w") as f:
        json.dump(c, f, indent=2)
        f.write("\n")
    write_safetensors(os.path.join(d, "model.safetensors"), weights(c, rng, **kw))
    ids = rng.integers(0, c["vocab_size"], T).astype(np.int32)
    model = Model(*ref.load(d))  # reads back the rounded weights
    logits = model.logits(ids)
    np.save(os.path.join(d, "ids.npy"), ids)
    np.save(os.path.join(d, "logits.npy"), logits.astype(np.float32))
    print(name, "T", T, "weights", sum(a.size for a in model.w.values()), "logit std %.3f" % logits.std(),
          "finite", np.isfinite(logits).all())
    return model


def main():
    for name in CASES:
        write_case(sys.argv[1], name)


if __name__ == "__main__":
    main()
