"""What the tests of this room look at inside the package: a module that moves is named here alone."""

from __future__ import annotations

from paor.fsm.journal.record import chain_hash
from paor.fsm.transfer.export import export_runs, in_order, line_bytes
from paor.tools.documents.convert import converter as converter_module
from paor.tools.documents.convert import docx as docx_module
from paor.tools.documents.convert import eml as eml_module
from paor.tools.documents.convert import opendocument as opendocument_module
from paor.tools.documents.convert import pdf as pdf_module
from paor.tools.documents.convert import plain as plain_module
from paor.tools.documents.convert import pptx as pptx_module
from paor.tools.documents.convert import registry as registry_module
from paor.tools.documents.convert import xlsx as xlsx_module
from paor.tools.documents.convert.conversion import CODES, ConversionError, DocumentPlace
from paor.tools.documents.convert.converter import Converter
from paor.tools.documents.convert.eml import MIME
from paor.tools.documents.convert.html import Balancer, tokens
from paor.tools.documents.convert.pdf import PageLine, drop_running_heads, flow
from paor.tools.documents.convert.pdf_tables import PageCell
from paor.tools.documents.convert.pdf_tables import tables as pdf_tables
from paor.tools.documents.convert.pptx import MIME as pptx_MIME
from paor.tools.documents.convert.registry import DOCX, OPENDOCUMENT, Converted, convert, sniff_mime
from paor.tools.documents.convert.registry import ConversionError as registry_ConversionError
from paor.tools.documents.convert.xlsx import MIME as xlsx_MIME
from paor.tools.documents.reports import MIMES, render_report
from paor.tools.process.child import ChildProcess
