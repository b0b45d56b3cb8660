-- other keys: reference leaving
-- args: token deletes

-- Takes back what leave_reference.lua has said by this token, and deletes the reference if it `deletes`. Answers 1 if
-- the reference is deleted.
if redis.call('GET', leaving) == token then
  redis.call('DEL', leaving)
  if tonumber(deletes) == 1 then
    return {'ok', redis.call('UNLINK', reference)}
  end
elseif tonumber(deletes) == 1 then
  if redis.call('EXISTS', reference) == 1 then
    return {'conflict', 'it took too long to find out whether an experiment uses this reference: try again'}
  end
  return {'ok', 1}
end
return {'ok', 0}
