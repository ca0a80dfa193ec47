// Reads a stream with Node's own fetch: node fetch_client.mjs URL TOKEN COUNT. Prints each id.
const [url, token, count] = process.argv.slice(2);
const response = await fetch(url, { headers: { Authorization: `Bearer ${token}` } });
if (!response.ok) throw new Error(await response.text());
console.error("open");
let text = "";
let left = Number(count);
for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
  text += chunk;
  const events = text.split("\n\n");
  text = events.pop();
  for (const event of events) {
    const id = event.split("\n").find((line) => line.startsWith("id: "));
    if (id && left-- > 0) console.log(id.slice(4));
  }
  if (left <= 0) break;
}
process.exit(0);
