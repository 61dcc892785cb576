-- A worker gives no more signs of life. :worker its id.
DELETE FROM fairlane.life WHERE worker = %(worker)s
