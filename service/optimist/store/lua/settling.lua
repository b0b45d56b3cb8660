-- uses: prelude picks checking accept
-- keys: picks terms contexts leases

-- The refusal of a batch that is not what its pick asked for, nil where it is. `agreed`: "<nonce> <least rows> <most
-- rows>", with 0 as the most for any number.
local function refusal(number, agreed, nonce, rows)
  if nonce_in(agreed) ~= nonce then
    return lost(number)
  end
  local least, most = agreed:match('^%S+ (%d+) (%d+)')
  if tonumber(rows) >= tonumber(least) and (most == '0' or tonumber(rows) <= tonumber(most)) then
    return nil
  end
  local expected = least == most and most or 'at most ' .. most
  return {'refused', 'expected ' .. expected .. ' rows for pick ' .. number .. ', got ' .. rows}
end

-- Ends a pick whose samples another batch has brought: its own is answered as a repeat, and nothing of it counts.
local function repeated(number, pick, g, digest, rows, late, limit)
  if release(number, pick) then
    hand_back(pick, rows)
  else
    count_unanswered(pick, -1)
  end
  local answer = uncounted_answer(g, number, rows, late)
  conclude(number, digest, answer, tonumber(limit))
  changed(g)
  was_unforeseen = true
  return {'ok', answer, 1}
end

-- Accepts a batch for a pick. Answers {answer, 1 if it was told before, else 0, the version that this made, what is
-- anomalous about it}. `recall` answers for a pick that is no longer open, as for a repeated tell.
local function settle(number, digest, rows, body, nonce, measures, channel, experiment, limit)
  local pick = redis.call('HGET', picks, number)
  if not pick then
    return recall(number, digest, nonce)
  end
  local agreed = redis.call('HGET', terms, number)
  local refused = refusal(number, agreed, nonce, rows)
  if refused then
    return refused
  end
  local g, slice, worker, asked, prompts, record =
    pick:match('^(%d+)\t[^\t]*\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t(.*)$')
  local deadline = redis.call('ZSCORE', leases, number)
  local late = not deadline or tonumber(deadline) <= now()
  if not deadline and (batches_left(worker) or 1) <= 0 then
    return {'refused', 'the worker ' .. worker .. ' has handed in all batches that the experiment takes of one worker '
      .. '(max_batches_per_worker); the lease of pick ' .. number .. ' had ended'}
  end
  local part = part_of(g, slice, rows)
  if part.rows == 0 then
    return repeated(number, pick, g, digest, rows, late, limit)
  end
  local found
  found, refused = check(g, part.rows, measures, worker, asked)
  if refused then
    return refused
  end
  local answer, version, oddity =
    accept(g, number, digest, part, body, late, channel, experiment, found, record, prompts,
      redis.call('HGET', contexts, number), agreed:match('^%S+ %d+ %d+ (%S+)'))
  -- The indices that it has no rows for are handed out again; those of a lease that ran out were returned then.
  if release(number, pick) then
    was_unforeseen = hand_back(pick, rows) or was_unforeseen
  else
    count_unanswered(pick, -1)
  end
  conclude(number, digest, answer, tonumber(limit))
  return {'ok', answer, 0, version, oddity}
end
