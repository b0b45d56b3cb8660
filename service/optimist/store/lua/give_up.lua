-- ARGV: pick, reason, how many ended picks are remembered.
local number, reason, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
local pick = redis.call('HGET', picks, number)
if not pick then
  return recall(number, '')
end
if release(number, pick) then
  hand_back(number, pick)
end
conclude(number, '\t' .. reason, limit)
changed()
return {'ok'}
