// SPDX-License-Identifier: Apache-2.0
// Pictures of the dashboards by Grafana's own components in a headless browser. It judges nothing.
//
//     node draw.mjs ANSWERS.json [--out DIR] [--board NAME] [--panel TITLE] [--width PIXELS] [--mode light|dark]
//
// ANSWERS is written by ../frames.py: what Prometheus answered to each query of each panel. All but DIR may be given
// several times. By default it draws all panels of all dashboards, at 1440 and 390 pixels, light and dark.

import { existsSync } from "node:fs";
import { mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { build } from "esbuild";
import puppeteer from "puppeteer-core";
import sharp from "sharp";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const BOARDS = path.join(HERE, "../../../../dashboards");
const GRAFANA = path.join(HERE, "node_modules/@grafana/ui");
const HOST = "http://drawing.invalid/"; // nothing is asked for: every file comes from here
const TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css", ".svg": "image/svg+xml", "": "text/html"};
const WEIGHTS = {Regular: 400, Medium: 500};
/** Where Grafana's components look for files of its server, and who has them here. */
const FILES = {
  "public/build/img/icons/": (name) => path.join(GRAFANA, "dist/public/img/icons", name),
  "public/fonts/inter/Inter-": (name) => path.join(HERE, "node_modules/@fontsource/inter/files",
    `inter-latin-${WEIGHTS[path.basename(name, ".woff2")]}-normal.woff2`),
};
const TEXT = {type: "string", multiple: true};
const {values: chosen, positionals: [answersFile]} = parseArgs({
  allowPositionals: true,
  options: {out: {type: "string", default: ".run/dashboards"}, board: TEXT, panel: TEXT, width: TEXT, mode: TEXT},
});
const {panels, variables, time, note: of} = JSON.parse(await readFile(answersFile, "utf8"));
const {version} = JSON.parse(await readFile(path.join(GRAFANA, "package.json"), "utf8"));
const note = `${of ? `${of}. ` : ""}Drawn by Grafana's components (@grafana/ui ${version}), not by Grafana`;

const bundle = await build({
  entryPoints: [path.join(HERE, "board.jsx")], bundle: true, write: false, outdir: "/", format: "iife", minify: true,
  jsx: "automatic", loader: {".ttf": "empty", ".woff": "empty", ".woff2": "empty", ".svg": "dataurl"},
  logLevel: "error", define: {"process.env.NODE_ENV": '"production"', global: "window"},
});
const served = new Map(bundle.outputFiles.map((file) => [HOST + path.basename(file.path), Buffer.from(file.contents)]));
served.set(HOST, '<!DOCTYPE html><meta charset="utf-8"><link rel="stylesheet" href="board.css"><div id="root"></div>'
  + '<script src="board.js"></script>');

const names = ["chromium", "chromium-browser", "google-chrome"];
const executablePath = process.env.PATH.split(":").flatMap((folder) => names.map((name) => path.join(folder, name)))
  .find(existsSync);
if (!executablePath) {
  console.error("this needs a browser: install chromium (Debian: apt-get install chromium)");
  process.exit(2);
}
const browser = await puppeteer.launch({executablePath, args: ["--no-sandbox", "--disable-gpu", "--hide-scrollbars"]});
await mkdir(chosen.out, {recursive: true});
const boards = (await readdir(BOARDS)).filter((file) => file.endsWith(".json"));
for (const name of chosen.board ?? boards.map((file) => path.basename(file, ".json")))
  for (const width of chosen.width ?? ["1440", "390"])
    for (const mode of chosen.mode ?? ["light", "dark"]) await picture(name, Number(width), mode);
await browser.close();

async function picture(name, width, mode) {
  const board = JSON.parse(await readFile(path.join(BOARDS, `${name}.json`), "utf8"));
  const answers = panels[board.uid];
  const range = [time.from * 1000, time.to * 1000];
  const page = await browser.newPage();
  page.on("console", (said) => said.type() === "error" && console.error(`${name}: ${said.text()}`));
  page.on("pageerror", (error) => console.error(`${name}: ${error.message}`));
  await page.evaluateOnNewDocument((now) => { Date.now = () => now; }, range[1]);
  await page.setRequestInterception(true);
  page.on("request", serve);
  await page.setViewport({width, height: 900});
  await page.goto(HOST);
  const drawing = {board, answers, variables: variables[board.uid], mode, note, only: chosen.panel, range};
  const awaited = await page.evaluate((one) => window.draw(one), drawing);
  const height = await page.evaluate(() => document.getElementById("root").scrollHeight);
  await page.setViewport({width, height});
  await page.waitForFunction(({icons, tables}) =>
    document.querySelectorAll("[data-testid=title-items-container] svg").length === icons
    && document.querySelectorAll("[role=grid]:has([role=gridcell])").length === tables, {}, awaited);
  const taken = await page.screenshot();
  const file = path.join(chosen.out, `${name}-${width}-${mode}.png`);
  await writeFile(file, await sharp(taken).png({palette: true, colours: 64, effort: 10}).toBuffer());
  console.log(`${file}: ${width} x ${height}`);
  await page.close();
}

async function serve(request) {
  const url = request.url();
  if (url.startsWith("data:")) return request.continue();
  const file = Object.entries(FILES).find(([folder]) => url.startsWith(HOST + folder));
  const body = file ? await readFile(file[1](url.slice(HOST.length + file[0].length))) : served.get(url) ?? "";
  return request.respond({contentType: TYPES[path.extname(url)], body});
}
