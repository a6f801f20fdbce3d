"""The methods, by name. To add one: a file here, and an entry in `METHODS`."""

from collections import ChainMap

from .apcg import APCG, PrimalAPCG
from .asdca import ASDCA
from .asvrg_sp import ASVRGSP
from .auto import Auto
from .dspdc import DSPDC
from .fista import FISTA
from .katyusha import Katyusha
from .l_katyusha import LKatyusha
from .l_svrg import LSVRG
from .method import Method
from .pdhg import PDHG
from .pure_cd import PureCD
from .qning import QNing
from .rpdg import RPDG
from .rpdhg import RPDHG
from .s2cd import S2CD
from .saga import SAGA
from .sdca import SDCA
from .sdna import SDNA
from .spdc import SPDC
from .spdhg import SPDHG
from .svrg import SVRG

METHODS = {
    cls.name: cls for cls in (
        DSPDC, SPDC, SDCA, ASDCA, APCG, PrimalAPCG, SAGA, SVRG, Katyusha, RPDG, PDHG, FISTA,
        ASVRGSP, PureCD, SPDHG, RPDHG, LSVRG, LKatyusha, SDNA, S2CD, QNing,
    )
}

Auto.field = METHODS

#: By all names that users may give.
NAMED = ChainMap({Auto.name: Auto}, METHODS)

__all__ = ["METHODS", "NAMED", "Auto", "Method", *(cls.__name__ for cls in METHODS.values())]
