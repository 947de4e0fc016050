"""`WORDS`: 256 plain words, one per value of a byte, for fingerprints that people read to each other."""

WORDS = """
acid acorn alarm album amber angle ankle apple apron arrow atlas autumn bacon badge bakery bamboo banjo barn basket
beach beard bench berry bicycle bishop blanket blossom bottle branch brass bread brick bridge broom bucket butter
cabin cactus camel candle canoe carbon carpet castle cattle cedar cello chalk cherry chess chimney circle clay clock
cloud clover coach coal coconut coffee comet compass copper coral cotton cradle crane crayon cricket crystal curtain
cushion daisy dancer desert diamond dinner doctor dolphin donkey dragon drum eagle earth easel echo elbow elephant
engine envelope fabric falcon farmer feather fence ferry fiddle finger flame flute forest fossil fountain fox galaxy
garden garlic ginger giraffe glacier glove goblet gold grape gravel guitar hammer harvest hazel helmet hockey honey
horse hotel island ivory jacket jelly jewel jungle kettle kitchen kite ladder lagoon lantern laundry lawyer leather
lemon letter lily linen lizard lobster magnet mango maple marble market meadow melon mirror mitten monkey mosaic
mountain muffin museum mustard napkin needle nickel noodle north nutmeg oasis ocean olive onion opera orange orchid
otter oyster paddle palace panther paper parrot pastry peach pearl pebble pencil pepper piano pigeon pillow pilot
planet plum pocket pond potato prairie pumpkin puzzle quartz quilt rabbit radar ranch raven ribbon river robin rocket
saddle salmon sandal satin saturn scarf school shadow shell shovel silver spider spoon squirrel stable statue summer
sunset table tailor teapot temple thunder ticket tiger timber tomato tower tulip tunnel turtle umbrella valley vanilla
velvet village violin walnut water whale wheat whistle window winter wizard wolf yellow zebra
""".split()  # noqa: SIM905 - a list of 256 lines would be no easier to read


def spell(digest: bytes) -> str:
    """Return one word per byte.

    Examples
    --------
    >>> spell(bytes([0, 1, 255]))
    'acid acorn zebra'
    """
    return " ".join(WORDS[byte] for byte in digest)
