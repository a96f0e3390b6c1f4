// What an independent reader (npm's @huggingface/gguf) finds in a GGUF file: node listing.mjs NODE_MODULES FILE.gguf
// Prints one JSON object: metadata (arrays by their length alone) and tensors [[name, type, [ne...]], ...].
import {pathToFileURL} from "node:url";

const [folder, file] = process.argv.slice(2);
const {gguf, GGMLQuantizationType} = await import(pathToFileURL(`${folder}/@huggingface/gguf/dist/index.mjs`));
const {metadata, tensorInfos} = await gguf(file, {allowLocalFile: true});
const plain = (v) => Array.isArray(v) ? {length: v.length, first: plain(v[0])} : typeof v === "bigint" ? Number(v) : v;
console.log(JSON.stringify({
    metadata: Object.fromEntries(Object.entries(metadata).map(([k, v]) => [k, plain(v)])),
    tensors: tensorInfos.map((t) => [t.name, GGMLQuantizationType[t.dtype], t.shape.map(Number)])
}));
