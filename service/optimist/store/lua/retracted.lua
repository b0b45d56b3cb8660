-- keys: counts

-- What was retracted: `retractions` is a stream with an entry for each retraction, and in `counts` stand
--   retracted_<g>_<position>  the id of this entry, by the position of the batch, or by that of the retraction itself
--                             where it retracted everything up to some position
--   <g>:restart               the last such position, which is the retraction's own one if that was everything; 0, or
--                             absent, for none
--   <g>:restarted_by          the own position of that retraction

-- Up to which position all batches of a generator are retracted.
local function restarted(g)
  return tonumber(redis.call('HGET', counts, g .. ':restart') or 0)
end

local function retraction_of(g, position)
  return redis.call('HGET', counts, 'retracted_' .. g .. '_' .. position)
end

-- The fields of an entry of a stream, and their values, as a list.
local function entry_in(stream, id)
  return redis.call('XRANGE', stream, id, id)[1][2]
end

local function is_retracted(g, position)
  return tonumber(position) <= restarted(g) or retraction_of(g, position) ~= false
end

-- An answer for a batch is whole numbers with spaces between, in the order of the fields of `Settled` (records/picks.py):
-- pick, generator, rows, samples, batches, position, 1 if it was late, how many rows do not count, and the runs of those
-- that do.
local function answer_of(number, g, rows, samples, batches, seq, late, uncounted, counted)
  return string.format('%s %s %.0f %.0f %.0f %.0f %d %.0f%s', number, g, rows, samples, batches, seq, late and 1 or 0,
    uncounted, counted ~= '' and ' ' .. counted or '')
end

-- Which batch a settled pick, or an idempotency key, brought: generator and position; nil if nothing of it counts.
local function batch_in(answer)
  local g, position = answer:match('^%d+ (%d+) %d+ %d+ %d+ (%d+)')
  if position ~= '0' then
    return g, position
  end
end

-- The refusal of a batch that is told after a retraction of the one that was accepted in its place, nil where the first
-- answer still holds. is_same: whether it is that batch.
local function refused_again(answer, is_same)
  local g, position = batch_in(answer)
  if g and is_retracted(g, position) then
    return {'retracted', (is_same and 'the batch' or 'another batch') .. ' was accepted at position ' .. position
      .. ' and retracted since: it no longer counts'}
  end
end
