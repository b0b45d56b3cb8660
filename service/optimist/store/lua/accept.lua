-- uses: prelude told checking entry
-- keys: counts log history

-- Whether a script did more than count whole batches and end their picks, which is what callers foresee.
local was_unforeseen = false

-- Logs and counts a batch. Answers the answer, the version that this made, and what is anomalous about the batch.
-- `number` is 0 for a batch without a pick; `part`: what of it counts, as `part_of` answers; `found` is what `check`
-- answered; `record`, `prompts` and `context` are those of its pick, if any, which was `opened` at this time.
local function accept(g, number, digest, part, body, late, channel, experiment, found, record, prompts, context, opened)
  local rows = part.rows
  local seq, bytes, samples, batches, due, chain, all_told, version, growth, keeps = unpack(redis.call(
    'HMGET', counts, g .. ':seq', g .. ':bytes', g .. ':samples', g .. ':batches', g .. ':due_samples', 'chain_' .. g,
    'told', 'version', 'growth', 'keep_log'))
  chain = redis.sha1hex(chain:match(' (%x*)$') .. digest)
  seq, samples, batches, version = seq + 1, samples + rows, batches + 1, (version or 0) + 1
  bytes = string.format('%.0f', bytes + #body + #(context or ''))
  local entry = entry_of({
    pick = number, rows = rows, digest = digest, chain = chain, bytes = bytes, body = body,
    record = keeps == '1' and (record or ''), indices = text_of(part.indices), counted = text_of(part.counted or {}),
    prompts = prompts, context = context, seconds = opened and string.format('%.6f', math.max(0, now() - opened)),
  })

  -- The first write is the one that Redis refuses when memory is full, so that it refuses all or nothing.
  redis.call('XADD', log .. ':' .. g, seq .. '-0', unpack(entry))
  local fields = {g .. ':seq', seq, g .. ':bytes', bytes, g .. ':samples', samples, g .. ':batches', batches,
                  'chain_' .. g, seq .. ' ' .. chain, 'told', all_told + 1, 'version', version, 'state_token', new_token(version)}
  -- rules/estimates.md: estimates are due at fixed sample counts, independent of who computes them, and when.
  due = tonumber(due)
  if samples >= 2 and (due == 0 or samples >= (1 + growth) * due) then
    fields[17], fields[18], fields[19], fields[20] = g .. ':due_samples', samples, g .. ':due_seq', seq
    redis.call('PUBLISH', channel, experiment .. ' ' .. g .. ' ' .. seq)
  end
  if opened then
    fields[#fields + 1] = g .. ':answered'
    fields[#fields + 1] = seq
  end
  redis.call('HSET', counts, unpack(fields))
  note_change(version, g)

  for i = 1, #part.indices, 2 do
    mark_told(g, part.indices[i], part.indices[i + 1])
  end
  was_unforeseen = was_unforeseen or part.uncounted > 0
  -- Other picks may have left, or returned, indices of a late batch, and of one told in place of a retracted one.
  if #part.indices > 0 and (late or number == '0' or redis.call('HEXISTS', counts, 'retractions') == 1) then
    was_unforeseen = forget_returned(g, part.indices) or was_unforeseen
  end

  local flags = (late and 1 or 0) + (number == '0' and 2 or 0)
  redis.call('APPEND', history, struct.pack('<HBI4', tonumber(g), flags, tonumber(rows)))
  local answer = answer_of(number, g, rows, samples, batches, seq, late, part.uncounted, text_of(part.counted or {}))
  return answer, version, (note(g, seq, found, number, rows))
end
