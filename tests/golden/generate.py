#!/usr/bin/python3
"""Write the golden cases and every intermediate of their forward passes, for golden_test.cpp.

    generate.py OUT_DIR

Adds OUT_DIR/CASE/trace/NAME.npy (float32 [T, ...], names as in README.md) to what tools/make_golden.py writes. Does
nothing when OUT_DIR is up to date. Exits with 77 (skip) when NumPy is not there.
"""
import hashlib
import os
import sys

try:
    import numpy as np
except ImportError:
    print("NumPy is not installed (Debian: python3-numpy): the golden tests are skipped")
    sys.exit(77)

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools")
sys.path[:0] = [TOOLS, os.path.join(TOOLS, "reference")]
import kimi_linear_reference as ref  # noqa: E402
import make_golden  # noqa: E402


class TracedModel(ref.Model):
    """The reference with a name for every intermediate. check() holds it against the reference itself."""

    def __init__(self, config, weights):
        super().__init__(config, weights)
        self.trace = {}  # name -> list of arrays, one a token

    def put(self, name, x):
        self.trace.setdefault(name, []).append(np.array(x, np.float64))
        return x

    def kda(self, layer, x):
        p, w, name = f"model.layers.{layer}.self_attn.", self.w, f"l{layer}.kda."
        H, K = self.lin["num_heads"], self.lin["head_dim"]
        q, k, v = (self.short_conv(layer, n, w[p + f"{n}_proj.weight"] @ x).reshape(H, K) for n in "qkv")
        q = self.put(name + "q", ref.l2_norm(q) * K ** -0.5)
        k = self.put(name + "k", ref.l2_norm(k))
        self.put(name + "v", v)
        f = w[p + "f_b_proj.weight"] @ (w[p + "f_a_proj.weight"] @ x) + w[p + "dt_bias"].reshape(-1)
        g = self.put(name + "log_decay", self.log_decay(w[p + "A_log"].reshape(-1)[:H, None], f.reshape(H, K)))
        beta = self.put(name + "beta", ref.sigmoid(w[p + "b_proj.weight"] @ x))
        S = self.state.get(layer, np.zeros((H, K, K))) * np.exp(g)[:, :, None]
        delta = beta[:, None] * (v - np.einsum("hk,hkv->hv", k, S))
        S = self.state[layer] = S + k[:, :, None] * delta[:, None, :]
        o = self.put(name + "o", np.einsum("hk,hkv->hv", q, S))
        gate = self.kda_output_gate(p, x).reshape(H, K)
        o = self.put(name + "o_gated",
                     ref.rms_norm(o, w[p + "o_norm.weight"], self.c["rms_norm_eps"]) * ref.sigmoid(gate))
        return w[p + "o_proj.weight"] @ o.reshape(-1)

    def mla(self, layer, x):
        """In the absorbed form, so that it also checks that form against the reference."""
        p, name = f"model.layers.{layer}.self_attn.", f"l{layer}.mla."
        c, w, eps = self.c, self.w, self.c["rms_norm_eps"]
        H, N, P, V, R = (c[n] for n in ("num_attention_heads", "qk_nope_head_dim", "qk_rope_head_dim",
                                        "v_head_dim", "kv_lora_rank"))
        if c.get("q_lora_rank"):
            q = w[p + "q_b_proj.weight"] @ ref.rms_norm(w[p + "q_a_proj.weight"] @ x,
                                                        w[p + "q_a_layernorm.weight"], eps)
        else:
            q = w[p + "q_proj.weight"] @ x
        q = self.put(name + "q", q.reshape(H, N + P))
        a = w[p + "kv_a_proj_with_mqa.weight"] @ x
        latent = self.put(name + "latent", ref.rms_norm(a[:R], w[p + "kv_a_layernorm.weight"], eps))
        self.put(name + "k_pe", a[R:])
        self.cache.setdefault(layer, []).append(np.concatenate([latent, a[R:]]))
        cache = np.stack(self.cache[layer])
        kv_b = w[p + "kv_b_proj.weight"].reshape(H, N + V, R)
        absorbed = np.concatenate([np.einsum("hn,hnr->hr", q[:, :N], kv_b[:, :N]), q[:, N:]], axis=1)
        scores = absorbed @ cache.T * (N + P) ** -0.5
        probs = np.exp(scores - scores.max(-1, keepdims=True))
        probs /= probs.sum(-1, keepdims=True)
        ctx = self.put(name + "ctx", probs @ cache[:, :R])
        return w[p + "o_proj.weight"] @ np.einsum("hr,hvr->hv", ctx, kv_b[:, N:]).reshape(-1)

    def routed(self, p, x, top, weight):
        name = f"l{p.split('.')[2]}.moe."
        self.put(name + "scores", ref.sigmoid(self.w[p + "gate.weight"] @ x))
        self.put(name + "experts", top)
        self.put(name + "weights", weight)
        return self.put(name + "routed", super().routed(p, x, top, weight))

    def mlp(self, p, names, x):
        y = super().mlp(p, names, x)
        if "shared_experts" in p:
            self.put(f"l{p.split('.')[2]}.moe.shared", y)
        return y

    def step(self, token):
        c, w, eps = self.c, self.w, self.c["rms_norm_eps"]
        x = self.put("embed", w["model.embed_tokens.weight"][token].copy())
        for i in range(c["num_hidden_layers"]):
            h = self.put(f"l{i}.attn_norm", ref.rms_norm(x, w[f"model.layers.{i}.input_layernorm.weight"], eps))
            x = x + self.put(f"l{i}.attn_out", self.mla(i, h) if i in self.full else self.kda(i, h))
            h = self.put(f"l{i}.ffn_norm", ref.rms_norm(x, w[f"model.layers.{i}.post_attention_layernorm.weight"], eps))
            x = self.put(f"l{i}.out", x + self.put(f"l{i}.ffn_out", self.ffn(i, h)))
        head = w["model.embed_tokens.weight" if c.get("tie_word_embeddings") else "lm_head.weight"]
        return self.put("logits", head @ self.put("norm", ref.rms_norm(x, w["model.norm.weight"], eps)))


def check(model, ids):
    """The traced model must be the reference."""
    expected = ref.Model(model.c, model.w).logits(ids)
    actual = np.stack(model.trace["logits"])
    assert np.abs(actual - expected).max() < 1e-10 * np.abs(expected).max()


def main():
    out, digest = sys.argv[1], hashlib.sha256(np.__version__.encode())
    for path in (__file__, make_golden.__file__, ref.__file__):
        with open(path, "rb") as f:
            digest.update(f.read())
    stamp = os.path.join(out, "stamp")
    if os.path.exists(stamp) and open(stamp).read() == digest.hexdigest():
        return
    for name in make_golden.CASES:
        model = make_golden.write_case(out, name, TracedModel)
        check(model, np.load(os.path.join(out, name, "ids.npy")))
        folder = os.path.join(out, name, "trace")
        os.makedirs(folder, exist_ok=True)
        for key, values in model.trace.items():
            np.save(os.path.join(folder, key + ".npy"), np.stack(values).astype(np.float32))
    with open(stamp, "w") as f:
        f.write(digest.hexdigest())


if __name__ == "__main__":
    main()
