/** The same vectors as Python: what is read, what is written, what is refused. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { type Json, type JsonObject, wire } from '@toolhall/sdk';

const FOLDER = new URL('../../../tests/vectors/hub/toolserver/', import.meta.url);

interface Vector {
  name: string;
  wire: Json;
  meaning?: JsonObject;
  only?: 'read';
  refused?: true;
}

interface Way {
  read(message: Json): unknown;
  write(meaning: never): unknown;
}

const order = (message: Json) => wire.readOrder(JSON.stringify(message));
const object = (message: Json) => wire.parse(JSON.stringify(message));
const ending: Way = {
  read: (message) => wire.readEnding(object(message)),
  write: (meaning: wire.End | wire.Failure) =>
    JSON.parse(meaning.kind === 'end' ? wire.writeEnd(meaning) : wire.writeFailure(meaning)),
};

const WAYS: Record<string, Way> = {
  'calls.json': { read: order, write: (meaning: wire.Call) => JSON.parse(wire.writeCall(meaning)) },
  'answers.json': { read: order, write: (meaning: wire.Answer) => JSON.parse(wire.writeAnswer(meaning)) },
  'core.json': {
    read: (message) => (object(message).type === 'response' ? wire.readResponse(object(message)) : order(message)),
    write: (meaning: wire.Request | wire.Response) =>
      JSON.parse(meaning.kind === 'request' ? wire.writeRequest(meaning) : wire.writeResponse(meaning)),
  },
  'reports.json': {
    read: (message) => wire.readReport(object(message)),
    write: (meaning: wire.Report) => JSON.parse(wire.writeReport(meaning)),
  },
  'responses.json': ending,
  'errors.json': ending,
  'declarations.json': {
    read: wire.readDeclaration,
    write: (meaning: wire.Declaration) => wire.writeDeclaration(meaning),
  },
};

test('every file of vectors is read here', () => {
  const files = readdirSync(FOLDER).filter((name) => name.endsWith('.json'));
  assert.deepEqual(files.sort(), [...Object.keys(WAYS), 'redacting.json'].sort()); // that one is for tool servers
});

for (const [file, way] of Object.entries(WAYS)) {
  const vectors = JSON.parse(readFileSync(new URL(file, FOLDER), 'utf8')) as Vector[];
  for (const vector of vectors) {
    if (vector.refused) {
      test(`${file}: ${vector.name} is refused`, () => {
        assert.throws(() => way.read(vector.wire), wire.Malformed);
      });
      continue;
    }
    test(`${file}: ${vector.name} is read`, () => {
      assert.deepEqual(way.read(vector.wire), vector.meaning);
    });
    if (vector.only === 'read') continue;
    test(`${file}: ${vector.name} is written`, () => {
      assert.deepEqual(way.write(vector.meaning as never), vector.wire);
    });
  }
}
