-- uses: prelude checking
-- keys: counts log history

-- The first index of a batch, and how many of its rows have one: a pick may be told more, or fewer, rows than it asked
-- for.
local function told_part(slice, rows)
  local start, size = slice:match('(%d+) (%d+)')
  return start .. ' ' .. string.format('%d', math.min(size, rows))
end

-- Logs and counts a batch. Answers the answer as JSON, the version that this made, and what is suspicious about the
-- batch. `number` is 0 and `record` '' for a batch without a pick; `found` is what `check`
-- answered; `slice`: the slice of its pick, or the indices that it was told with, if any; `context`: that of its pick, if
-- any.
local function accept(g, number, digest, rows, body, record, late, channel, experiment, found, slice, context)
  local seq, bytes, samples, batches, due, chain, told, version, growth, keeps = unpack(redis.call(
    'HMGET', counts, g .. ':seq', g .. ':bytes', g .. ':samples', g .. ':batches', g .. ':due_samples', 'chain_' .. g,
    'told', 'version', 'growth', 'keep_log'))
  chain = redis.sha1hex(chain:match(' (%x*)$') .. digest)
  seq, samples, batches, version = seq + 1, samples + rows, batches + 1, (version or 0) + 1
  bytes = string.format('%.0f', bytes + #body + #(context or ''))
  local entry = {'pick', number, 'rows', rows, 'digest', digest, 'chain', chain, 'bytes', bytes, 'body', body}
  if keeps == '1' then
    entry[13], entry[14] = 'record', record
  end
  if (slice or '') ~= '' then
    entry[#entry + 1] = 'indices'
    entry[#entry + 1] = told_part(slice, rows)
  end
  -- The prompts of the rows in a fixed list, which the record of a pick names. In a text every quote is escaped.
  if record:find('"prompt_indices":[', 1, true) then
    entry[#entry + 1] = 'prompts'
    entry[#entry + 1] = record:match('"prompt_indices":%[([%d,]*)%]') or ''
  end
  if context then
    entry[#entry + 1] = 'context'
    entry[#entry + 1] = context
  end

  -- The first write is the one that Redis refuses when memory is full, so that it refuses all or nothing.
  redis.call('XADD', log .. ':' .. g, seq .. '-0', unpack(entry))
  local fields = {g .. ':seq', seq, g .. ':bytes', bytes, g .. ':samples', samples, g .. ':batches', batches,
                  'chain_' .. g, seq .. ' ' .. chain, 'told', told + 1, 'version', version, 'mark', marked(version)}
  -- decisions.md §2: estimates are due at fixed sample counts, independent of who computes them, and when.
  due = tonumber(due)
  if samples >= 2 and (due == 0 or samples >= (1 + growth) * due) then
    fields[17], fields[18], fields[19], fields[20] = g .. ':due_samples', samples, g .. ':due_seq', seq
    redis.call('PUBLISH', channel, experiment .. ' ' .. g .. ' ' .. seq)
  end
  redis.call('HSET', counts, unpack(fields))

  local flags = (late and 1 or 0) + (number == '0' and 2 or 0)
  redis.call('APPEND', history, struct.pack('<HBI4', tonumber(g), flags, tonumber(rows)))
  return string.format(
    '{"pick":%d,"generator":%d,"rows":%d,"samples":%d,"batches":%d,"seq":%d,"late":%s}',
    tonumber(number), tonumber(g), tonumber(rows), samples, batches, seq, tostring(late)), version, (note(g, seq, found, number, rows))
end
