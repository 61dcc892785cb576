"""What the jobs do: the same functions before and after. RQ finds them by their name, so they are in a module."""

from collections import Counter

runs = Counter()


def receipt(order, to):
    return f"receipt {order}: sent to {to}"


def charge(order):
    runs[order] += 1
    if runs[order] < 3:
        raise OSError("the bank is away")
    return f"charge {order}: paid at run {runs[order]}"


def remind(to):
    return f"reminder: sent to {to}"
