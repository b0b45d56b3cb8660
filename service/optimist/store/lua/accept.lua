-- Stands before the scripts that accept batches, below the prelude.

-- Logs and counts a batch, and answers as JSON. `number` is 0 and `record` '' for a batch that no pick asked for.
local function accept(g, number, digest, rows, body, record, late, channel, experiment)
  local last, before, due, growth, keeps =
    unpack(redis.call('HMGET', counts, g .. ':seq', g .. ':bytes', g .. ':due_samples', 'growth', 'keep_log'))
  local seq, bytes = last + 1, before + #body
  local entry = {'pick', number, 'rows', rows, 'digest', digest, 'bytes', string.format('%.0f', bytes), 'body', body}
  if keeps == '1' then
    entry[11], entry[12] = 'record', record
  end

  -- The first write is the one that Redis refuses when memory is full, so that it refuses all or nothing.
  redis.call('XADD', log .. ':' .. g, seq .. '-0', unpack(entry))
  redis.call('HINCRBY', counts, g .. ':bytes', #body)
  local samples = redis.call('HINCRBY', counts, g .. ':samples', rows)
  local batches = redis.call('HINCRBY', counts, g .. ':batches', 1)
  redis.call('HSET', counts, g .. ':seq', seq)
  redis.call('HINCRBY', counts, 'told', 1)

  -- decisions.md §2: estimates are due at fixed sample counts, whoever computes them and whenever.
  due = tonumber(due)
  if samples >= 2 and (due == 0 or samples >= (1 + growth) * due) then
    redis.call('HSET', counts, g .. ':due_samples', samples, g .. ':due_seq', seq)
    redis.call('PUBLISH', channel, experiment .. ' ' .. g .. ' ' .. seq)
  end

  local flags = (late and 1 or 0) + (number == '0' and 2 or 0)
  redis.call('APPEND', history, struct.pack('<HBI4', tonumber(g), flags, tonumber(rows)))
  return string.format(
    '{"pick":%d,"generator":%d,"rows":%d,"samples":%d,"batches":%d,"seq":%d,"late":%s}',
    tonumber(number), tonumber(g), tonumber(rows), samples, batches, seq, tostring(late))
end
