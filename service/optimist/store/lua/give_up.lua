-- ARGV: pick, reason, how many ended picks are remembered, the pick's nonce or '' for whichever has the number.
local number, reason, limit, nonce = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local pick = redis.call('HGET', picks, number)
if not pick then
  return recall(number, '', nonce)
elseif nonce ~= '' and not meets(redis.call('HGET', terms, number), nonce) then
  return lost(number)
end
if release(number, pick) then
  hand_back(number, pick)
end
conclude(number, '\t' .. reason, limit)
changed()
return {'ok'}
