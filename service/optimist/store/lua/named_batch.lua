-- uses: retracted
-- keys: settled picks counts generators
-- args: generator position number

-- Which batch somebody means. It is named by its `position` in a generator's log or by the `number` of its pick; neither
-- stands for everything that the generator was told.

-- The generator and the position of the batch of a pick; or nil and a refusal. kind: of refusals other than that there
-- was no such pick.
local function batch_of(number, kind)
  local entry = redis.call('HGET', settled, number)
  if entry then
    local digest, answer = entry:match('^[^\t]*\t([^\t]*)\t(.*)$')
    if digest == '' then
      return nil, {kind, 'pick ' .. number .. ' was given up: it has no batch'}
    end
    local g, position = batch_in(answer)
    if g then
      return g, position
    end
    return nil, {kind, 'nothing of the batch of pick ' .. number .. ' counts: its samples were told before'}
  elseif redis.call('HEXISTS', picks, number) == 1 then
    return nil, {kind, 'pick ' .. number .. ' has no batch yet: give it up, or try again after its tell'}
  elseif tonumber(number) > 0 and tonumber(number) <= tonumber(redis.call('HGET', counts, 'rounds')) then
    return nil, {kind, 'pick ' .. number .. ' ended so long ago that its batch is no longer known by it: '
      .. 'name the batch by its generator and position'}
  end
  return nil, {'not-found', 'pick ' .. number .. ' was never made'}
end

-- The generator and the position of the named batch, 0 for everything that the generator was told; or nil and a refusal,
-- of `kind` for a pick without a batch.
local function named_batch(kind)
  local g, at = generator, position
  if number ~= '' then
    g, at = batch_of(number, kind)
    if not g then
      return nil, at
    end
  elseif redis.call('HEXISTS', generators, g) == 0 then
    return nil, {'not-found', 'there is no such generator'}
  elseif at == '' then
    return g, 0
  end
  at = tonumber(at)
  if at < 1 or at > tonumber(redis.call('HGET', counts, g .. ':seq')) then
    return nil, {'not-found', 'generator ' .. redis.call('HGET', generators, g) .. ' has no batch at position ' .. at}
  end
  return g, at
end
