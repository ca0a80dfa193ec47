// Parses the AsyncAPI document on the standard input, and says in JSON what it found.
const fs = require('fs');
const { Parser } = require('@asyncapi/parser');

async function main() {
  const { document, diagnostics } = await new Parser().parse(fs.readFileSync(0, 'utf-8'));
  const found = diagnostics.map(({ severity, code, message, path }) => ({
    severity,
    code,
    message,
    path: path.join('.'),
  }));
  const operations = document ? document.operations().all() : [];
  console.log(
    JSON.stringify({
      diagnostics: found,
      operations: operations.map((operation) => ({
        name: operation.id(),
        action: operation.action(),
        channels: operation.channels().all().map((channel) => channel.address()),
        messages: operation.messages().all().map((message) => message.id()),
      })),
    }),
  );
}

main();
