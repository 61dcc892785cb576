-- Give jobs the new numbers of their lanes; temp.moved has the lanes whose number changes.
UPDATE job SET
    lane = coalesce((SELECT new FROM temp.moved WHERE old = lane), lane),
    other_lane = coalesce((SELECT new FROM temp.moved WHERE old = other_lane), other_lane)
WHERE lane IN (SELECT old FROM temp.moved) OR other_lane IN (SELECT old FROM temp.moved)
