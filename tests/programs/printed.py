"""print() among effects: the graph ends there, and one graph is refused."""

from programs import program


class Bag:
    kind = "bag"

    def __init__(self, **names):
        self.__dict__.update(names)


@program("printed", lambda t: (t(), Bag(v=1)), one_graph=False)
def printing_between_effects(x, bag):
    bag.v = x + 1
    print("v", bag.v.sum().shape)
    bag.v = bag.v * 2
    print(sorted(vars(bag)))
    del bag.v
    return x


class Loud:
    def __str__(self):
        print("asked", end="; ")
        return "loud"


@program("printed", lambda t: (t(), Loud()), one_graph=False)
def print_asks_for_text_in_order(x, loud):
    print("a", loud, 1.5, sep="-", flush=True)
    print()
    print([x.dim()], file=None, end=".")
    return x + 1


@program("printed", lambda t: (t(),), one_graph=False)
def print_of_a_generator(x):
    log = []
    print(*(log.append(i) or i for i in range(3)), sep=", ")
    print("done", end="")
    return log, x + 1
