// Hooks for Dredd: what an example needs before it, and the tokens that answers give.
const fs = require('fs');
const hooks = require('hooks');

const { url, token, before } = JSON.parse(fs.readFileSync(process.env.HEADRACE_EXAMPLES, 'utf-8'));
const FROM_BEFORE = '…';
const found = {};

function keep(value) {
  if (value === null || typeof value !== 'object') return;
  for (const [key, inner] of Object.entries(value)) {
    if ((key === 'token' || key === 'session') && typeof inner === 'string') found[key] = inner;
    keep(inner);
  }
}

function filled(key, value) {
  return value === FROM_BEFORE ? found[key] : value;
}

hooks.beforeEach(async (transaction, done) => {
  // A stream has no end that Dredd could wait for, and a WebSocket is none of its protocols.
  const { headers, statusCode } = transaction.expected;
  if (/event-stream/.test(JSON.stringify(headers)) || String(statusCode) === '101') {
    transaction.skip = true;
  }
  const operation = transaction.name.split(' > ')[1];
  for (const { method, path, body } of before[operation] || []) {
    const answer = await fetch(url + path, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    if (!answer.ok) transaction.fail = `${method} ${path}: ${await answer.text()}`;
    else keep(await answer.json());
  }
  if (transaction.request.body) {
    transaction.request.body = JSON.stringify(JSON.parse(transaction.request.body, filled));
  }
  done();
});

hooks.afterEach((transaction, done) => {
  const text = transaction.real && transaction.real.body;
  if (text && transaction.real.statusCode < 300) keep(JSON.parse(text));
  done();
});
