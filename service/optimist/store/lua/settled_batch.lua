-- uses: retracted
-- keys: settled picks counts

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
