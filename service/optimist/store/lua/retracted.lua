-- keys: counts

-- What was retracted, in `counts`:
--   retracted_<g>_<position>  the record of a retraction as JSON, by the position of its batch, or by its own position
--                             where it retracted everything up to some position
--   <g>:restart               the last such position, which is the retraction's own one if that was everything; 0, or
--                             absent, for none
--   <g>:restarted_by          the own position of that retraction

-- Up to which position all batches of a generator are retracted.
local function restarted(g)
  return tonumber(redis.call('HGET', counts, g .. ':restart') or 0)
end

local function is_retracted(g, position)
  return tonumber(position) <= restarted(g)
    or redis.call('HEXISTS', counts, 'retracted_' .. g .. '_' .. position) == 1
end

-- Which batch a settled pick, or an idempotency key, brought: generator and position; nil if nothing of it counts.
local function batch_in(answer)
  local position = answer:match('"seq":([1-9]%d*)')
  if position then
    return answer:match('"generator":(%d+)'), position
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
