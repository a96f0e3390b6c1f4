// What llama.cpp (npm's node-llama-cpp) makes of GGUF files: node answers.mjs NODE_MODULES MODEL.gguf... < prompts.json
// prompts.json: a list of texts. Prints a JSON list a model: for each text {ids, answer, probabilities} with the ids of
// the text, the greedy answer's ids, and the probabilities [[id, p], ...] of the likeliest first tokens.
import {readFileSync} from "node:fs";
import {pathToFileURL} from "node:url";

const [folder, ...modelPaths] = process.argv.slice(2);
const {getLlama} = await import(pathToFileURL(`${folder}/node-llama-cpp/dist/index.js`));
const prompts = JSON.parse(readFileSync(0, "utf8"));
const llama = await getLlama({gpu: false, build: "never", logLevel: "error", maxThreads: 1});
for (const modelPath of modelPaths) {
    const model = await llama.loadModel({modelPath});
    const context = await model.createContext({contextSize: 512, batchSize: 512, threads: 1});
    const sequence = context.getSequence();
    const out = [];
    for (const prompt of prompts) {
        const ids = model.tokenize(prompt, true);
        await sequence.clearHistory();
        const sampling = {temperature: 1, topK: 0, topP: 1, minP: 0, seed: 1};
        const last = ids.length - 1;
        const evaluated = await sequence.controlledEvaluate(
            ids.map((id, i) => i === last ? [id, {generateNext: {probabilities: true, options: sampling}}] : id));
        const probabilities = [...evaluated[last].next.probabilities].slice(0, 20);
        await sequence.clearHistory();
        const answer = [];
        for await (const id of sequence.evaluate(ids, {temperature: 0, yieldEogToken: true})) {
            answer.push(id);
            if (model.isEogToken(id) || answer.length >= 64) break;
        }
        out.push({ids, answer, probabilities});
    }
    console.log(JSON.stringify(out));
    await context.dispose();
    await model.dispose();
}
process.exit(0);
