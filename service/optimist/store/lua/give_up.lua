-- ARGV: pick, reason, how many ended picks are remembered.
local number, reason, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
if redis.call('HEXISTS', picks, number) == 0 then
  return recall(number, '')
end
if release(number) then
  hand_back(number)
end
conclude(number, '\t' .. reason, limit)
changed()
return {'ok'}
